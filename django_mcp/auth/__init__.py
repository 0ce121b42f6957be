"""Authentication classes. Add one module per scheme."""
