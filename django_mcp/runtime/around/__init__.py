"""The middleware and hooks around a site's views, for responses of this package in their place."""
