"""A site for several workers, whose tools answer with what they were given."""

from tests.services.site.celery import app as celery_app

__all__ = ["celery_app"]
