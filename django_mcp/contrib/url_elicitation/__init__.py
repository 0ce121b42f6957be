"""Pages for URL-mode elicitation: an optional app with links, views and a table of answers."""
