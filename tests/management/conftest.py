"""The commands see the databases of the site alone."""

from __future__ import annotations

import pytest
from django.db import connections


@pytest.fixture(autouse=True)
def _only_databases_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the databases that other tests of this process keep until its end."""
    for alias in [alias for alias in connections.settings if alias != "default"]:
        monkeypatch.delitem(connections.settings, alias)
