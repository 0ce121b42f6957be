"""How messages arrive. To add a transport, write a sibling of these files on ``base``."""
