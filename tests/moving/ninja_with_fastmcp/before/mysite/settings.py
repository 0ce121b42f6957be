from mysite.base import *

MIDDLEWARE += ["django.contrib.auth.middleware.AuthenticationMiddleware"]
