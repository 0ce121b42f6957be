"""What a handler sees of one request: the Frame and the values that it holds."""
