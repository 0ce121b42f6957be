"""What Django's own types are for components: arguments, results, errors, forms and requests."""
