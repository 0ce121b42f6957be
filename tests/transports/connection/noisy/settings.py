"""The example site with the noisy app."""

from example_site.settings import *  # noqa: F403
from example_site.settings import INSTALLED_APPS as SITE_APPS

INSTALLED_APPS = [*SITE_APPS, "tests.transports.connection.noisy"]

print("settings: read")
