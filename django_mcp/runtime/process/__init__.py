"""The process: the signals that stop it, and the ASGI server that acts on them."""
