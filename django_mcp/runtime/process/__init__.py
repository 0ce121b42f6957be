"""The process: its threads, the signals that stop it, and the ASGI server that acts on them."""
