"""What a site has around its views, for what this package answers in their place."""
