"""Where operations come from: a document, an API of Django Ninja, one of django-modern-rest."""
