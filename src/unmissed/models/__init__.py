"""The systems of the paper, one file each, with scikit-learn's manners."""
