"""The app of which the documentation speaks."""
