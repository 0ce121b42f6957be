"""A site whose handlers exit, block and fail, for processes of their own."""
