"""The call log: an optional app that stores a row for each call, and shows them in the admin."""
