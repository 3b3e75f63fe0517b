"""Files and text in, sparse matrices out."""
