"""Django's own types in components: arguments, results, errors, forms and requests.

The schemas of their fields are made in ``field_types``, such as that of a ``CharField``.
"""
