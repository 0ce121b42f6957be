"""Personal access tokens: an optional app with their table, admin, pages and command."""
