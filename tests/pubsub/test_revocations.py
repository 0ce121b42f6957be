"""Which tokens a worker forgets when a row changes, and what becomes of the change itself."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction

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


@pytest.mark.django_db(transaction=True)
def test_user_is_saved_where_autocommit_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Any] = []
    monkeypatch.setattr(revocations, "_publish", lambda message: published.append(message["user"]))
    user = get_user_model().objects.create_user("ann")
    published.clear()

    transaction.set_autocommit(False)
    try:
        user.first_name = "Ann"
        user.save()
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    assert get_user_model().objects.get(pk=user.pk).first_name == "Ann"
    assert published == [str(user.pk)]
