from mysite.base import *
