"""The example site under a WSGI server with eight threads, some of which may have open streams."""

from example_site.settings import *  # noqa: F403
from example_site.settings import DJANGO_MCP as OPTIONS

DJANGO_MCP = {**OPTIONS, "WSGI_STREAMS": 6}
