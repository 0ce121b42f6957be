"""A site for several workers, whose tools answer with what they were given."""
