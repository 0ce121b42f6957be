"""The example site as most projects are: its runserver is that of Django, for WSGI."""

from example_site.settings import *  # noqa: F403
from example_site.settings import INSTALLED_APPS as ALL_APPS

INSTALLED_APPS = [app for app in ALL_APPS if app != "daphne"]
