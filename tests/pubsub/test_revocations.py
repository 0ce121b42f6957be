"""Which tokens a worker forgets when a row of django-oauth-toolkit changes."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.pubsub import revocations


class DeletedToken:
    """A token that was read without its digest, and whose row is gone."""

    pk = 1

    def get_deferred_fields(self) -> set[str]:
        return {"token", "token_checksum"}

    @property
    def token_checksum(self) -> str:
        raise LookupError("There is no such row")


def test_deleted_token_with_a_deferred_digest_forgets_all_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published: list[Any] = []
    monkeypatch.setattr(revocations, "publish", lambda **message: published.append(message))

    revocations._on_token_changed(instance=DeletedToken(), using="default")

    assert published == [{"digest": None, "using": "default"}]
