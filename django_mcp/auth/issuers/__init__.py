"""Authorization servers: requests to them, their metadata and their keys."""
