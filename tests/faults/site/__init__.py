"""A site whose handlers do what faults were found with, for processes of their own."""
