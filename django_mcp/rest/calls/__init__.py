"""The call of a view: its request, the credentials of the caller, and its response as a result."""
