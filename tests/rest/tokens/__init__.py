"""An app with API tokens of which some may only read, as sites have them."""
