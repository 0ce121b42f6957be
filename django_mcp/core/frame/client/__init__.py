"""The client as a handler sees it: ``frame.client``."""
