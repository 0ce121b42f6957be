"""The call of a view: its request, its middleware and its response."""
