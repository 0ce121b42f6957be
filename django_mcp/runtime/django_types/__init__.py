"""Django's own types in components: arguments, results, errors, forms and requests."""
