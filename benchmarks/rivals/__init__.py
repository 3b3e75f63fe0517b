"""One adapter a peer."""
