"""The settings of the example site, with the templates of ``counters``."""

from example_site.settings import *  # noqa: F403
from example_site.settings import TEMPLATES as SITE_TEMPLATES
from tests.browser.counter_template import ENGINE

TEMPLATES = [*SITE_TEMPLATES, ENGINE]
