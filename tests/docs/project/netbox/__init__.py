"""What the documentation imports of NetBox."""
