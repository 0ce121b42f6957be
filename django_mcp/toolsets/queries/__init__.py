"""Queries: declared paths, the rows that a caller may see, and what a query may contain."""
