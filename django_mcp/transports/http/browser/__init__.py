"""The page that a browser gets at an endpoint, and the documents that its user can download."""
