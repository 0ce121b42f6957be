"""The example site and its superuser, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Visitor, chromium
from tests.running_site import RunningSite, running_site


@pytest.fixture(scope="module")
def site() -> Iterator[RunningSite]:
    with running_site(demo_data=True) as site:
        yield site


@pytest.fixture
def visitor(site: RunningSite, tmp_path: Path) -> Iterator[Visitor]:
    """The superuser, logged in with a new browser."""
    with chromium(tmp_path / "profile") as driver:
        visitor = Visitor(driver, site, tmp_path)
        visitor.log_in("admin", "admin")
        yield visitor
