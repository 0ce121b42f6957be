"""How messages arrive: a folder per family of transports, and what they share."""
