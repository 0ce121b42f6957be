"""The example site with the noisy app in it."""

from example_site.settings import *  # noqa: F403
from example_site.settings import INSTALLED_APPS as THEIRS

INSTALLED_APPS = [*THEIRS, "tests.transports.noisy"]

print("settings: read")
