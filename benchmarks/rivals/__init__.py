"""Adapters of other systems, one module per system."""
