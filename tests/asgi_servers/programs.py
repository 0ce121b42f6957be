"""The programs that serve the tests of this folder."""

from __future__ import annotations

import os

from tests.processes import ROOT

APPLICATION = "tests.asgi_servers.one_server:application"
BARE = {**os.environ, "DJANGO_SETTINGS_MODULE": "", "PYTHONPATH": str(ROOT)}
"""The environment of a site that configures Django itself."""
