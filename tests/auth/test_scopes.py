"""Scopes which include others."""

from __future__ import annotations

from django_mcp.core.auth.permissions import grants_scopes, included_scopes
from tests.rows import rows
from tests.spec import spec

HIERARCHY = {"admin": ["write", "read"], "write": ["append"], "loop": ["round"], "round": ["loop"]}


@spec("AUTH-07")
@rows(
    ("granted", "needed", "expected"),
    [
        ("", "", True),
        ("read", "", True),
        ("", "read", False),
        ("read", "read", True),
        ("read", "read write", False),
        ("read write", "write", True),
        ("admin", "read append", True),
        ("write", "read", False),
        ("append", "write", False),
        ("loop", "round loop", True),
        ("loop", "read", False),
    ],
)
def test_scopes_grant_themselves_and_all_that_they_include(
    granted: str, needed: str, expected: bool
) -> None:
    assert grants_scopes(frozenset(granted.split()), needed.split(), HIERARCHY) is expected


def test_included_scopes_are_found_over_several_levels() -> None:
    assert included_scopes(["admin"], HIERARCHY) == {"admin", "write", "read", "append"}
