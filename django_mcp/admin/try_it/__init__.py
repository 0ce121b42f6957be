"""Calls of components from the admin, as the user who is logged in."""
