"""Readers of vocabularies, one class per format: `vocabulary_registry.py` lists them and has `read_vocabulary`."""
