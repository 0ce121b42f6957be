"""An app that prints to standard output, which is reserved for messages."""
