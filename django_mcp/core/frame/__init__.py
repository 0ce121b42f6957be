"""A request as handlers see it: the Frame and its values."""
