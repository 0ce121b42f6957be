"""A small Django project with trivial tools, so that the cost of the framework is measured."""
