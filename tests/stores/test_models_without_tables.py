"""Models without a table: databases say nothing of their fields."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import Warning as CheckWarning
from django.db import connections

from django_mcp.models import Component, McpServer, SwitchedOff

pytestmark = pytest.mark.django_db


def test_limits_of_a_database_are_not_reported_for_a_model_without_a_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check_field(field: Any, **_: Any) -> list[CheckWarning]:
        """As MariaDB warns of unique strings of more than 255 characters."""
        return [CheckWarning("too long", obj=field, id="mysql.W003")]

    monkeypatch.setattr(connections["default"].validation, "check_field", check_field)
    assert SwitchedOff.check(databases=["default"])
    assert Component.check(databases=["default"]) == []
    assert McpServer.check(databases=["default"]) == []
