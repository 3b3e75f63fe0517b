"""The verbs: train, predict, evaluate, and the folder that they leave behind."""
