"""Queries: declared paths, the rows that a caller may see, and a check of each query."""
