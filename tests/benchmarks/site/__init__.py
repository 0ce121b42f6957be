"""A small Django project whose tools do next to nothing, so that the rest of a call is seen."""
