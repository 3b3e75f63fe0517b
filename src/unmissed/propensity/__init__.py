"""How likely a true label was written down, and what follows from it for the costs of a loss."""
