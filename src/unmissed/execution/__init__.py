"""Where label blocks run: in this process, in threads, later on a cluster."""
