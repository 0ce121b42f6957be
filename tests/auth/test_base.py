"""Principals: two users are never one."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User

from django_mcp.core.auth.base import Principal
from tests.rows import rows


@rows(
    ("subject", "user", "key"),
    [
        ("", None, "token:"),
        ("", AnonymousUser(), "token:"),
        ("", User(pk=7), "token:7"),
        ("ann", User(pk=7), "token:ann"),
    ],
)
def test_subject_is_the_primary_key_of_the_user_unless_one_is_given(
    subject: str, user: Any, key: str
) -> None:
    assert Principal(scheme="token", subject=subject, user=user).key == key


@rows("user", [User(username="unsaved"), object()])
def test_user_without_a_primary_key_needs_a_subject(user: Any) -> None:
    with pytest.raises(ValueError, match="needs a subject"):
        Principal(scheme="token", user=user)
    assert Principal(scheme="token", subject="ann", user=user).subject == "ann"
