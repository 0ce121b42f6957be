"""The app of the documentation's examples."""
