"""The right to make one approved call."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.contrib.approvals.step import Grant

CALL: tuple[str, str, dict[str, Any]] = ("till", "pay", {"amount": 7})


@pytest.mark.parametrize(
    "other",
    [
        ("shop", "pay", {"amount": 7}),
        ("till", "pay_safely", {"amount": 7}),
        ("till", "pay", {"amount": 8}),
        ("till", "pay", {"amount": 7, "note": "for tea"}),
        ("till", "pay", {}),
    ],
)
def test_grant_is_for_one_server_tool_and_arguments(other: tuple[str, str, Any]) -> None:
    grant = Grant("task", *CALL)
    assert not grant.take(*other)
    assert grant.take(*CALL)


def test_grant_is_used_once() -> None:
    grant = Grant("task", *CALL)
    assert [grant.take(*CALL), grant.take(*CALL)] == [True, False]
