"""Events: an optional app that tells clients what happens on the site."""
