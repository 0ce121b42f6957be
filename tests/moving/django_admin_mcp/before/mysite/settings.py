from mysite.base import *
from mysite.of_admin import *

INSTALLED_APPS += ["django.contrib.admin", "django.contrib.messages", "django_admin_mcp"]
