"""Who is calling. To add a way of telling, write a sibling of these files."""
