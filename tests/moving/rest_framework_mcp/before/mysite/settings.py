from mysite.base import *

INSTALLED_APPS += ["rest_framework", "djangorestframework_mcp"]
