from mysite.base import *

INSTALLED_APPS += ["rest_framework", "mcp_server"]
