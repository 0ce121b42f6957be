"""What the documentation imports of django-simple-history."""
