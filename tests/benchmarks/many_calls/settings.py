"""The example site without debugging, on a database that ``database`` creates."""

from example_site.settings import *  # noqa: F403 - these settings but for two.
from tests.benchmarks.site.database import DATABASES as DATABASES

DEBUG = False
