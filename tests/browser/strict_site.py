"""The example site under a strict content security policy, and its superuser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Visitor, chromium
from tests.running_site import RunningSite, running_site

SETTINGS = "tests.browser.strict_settings"
ALLOW = """
from django.contrib.auth.models import Permission, User
agent = User.objects.get(username="agent")
for codename in ("view_component", "try_component"):
    agent.user_permissions.add(Permission.objects.get(codename=codename))
"""


@pytest.fixture(scope="module")
def site() -> Iterator[RunningSite]:
    with running_site(demo_data=True, DJANGO_SETTINGS_MODULE=SETTINGS) as site:
        site.manage("shell", "--verbosity", "0", "--command", ALLOW)
        yield site


@pytest.fixture
def visitor(site: RunningSite, tmp_path: Path) -> Iterator[Visitor]:
    """The superuser, logged in with a new browser."""
    with chromium(tmp_path / "profile") as driver:
        visitor = Visitor(driver, site, tmp_path)
        visitor.speed_up()  # Axe would look at colours that change.
        visitor.show_width(1280)
        visitor.log_in("admin", "admin")
        yield visitor
