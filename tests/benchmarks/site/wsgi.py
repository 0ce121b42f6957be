"""The WSGI application of the measured project."""

import os

from django.core.wsgi import get_wsgi_application

from django_mcp.routing import mount

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.benchmarks.site.settings")

application = mount(get_wsgi_application())
