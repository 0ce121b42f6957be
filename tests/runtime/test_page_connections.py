"""The connections of a page under ASGI, whose thread ends with its request."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.db import connections, transaction
from django.http import HttpResponse
from django.test import RequestFactory
from django.views import View

from django_mcp.runtime import connections as of_thread
from django_mcp.runtime.pages import ProtectedPage
from tests import databases


class Page(ProtectedPage, View):
    """A page that says nothing."""

    def get(self, request: Any) -> HttpResponse:
        return HttpResponse("page")


# The end of a request closes obsolete connections, also those that another test left.
@pytest.mark.django_db
@pytest.mark.parametrize(("is_asgi", "expected"), [(True, ["closed"]), (False, [])])
def test_page_under_asgi_closes_its_connections_when_it_is_sent(
    is_asgi: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch, rf: RequestFactory
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(of_thread, "close_unused", lambda: closed.append("closed"))
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    request = ASGIRequest(scope, io.BytesIO()) if is_asgi else rf.get("/")
    response = Page.as_view()(request)
    assert closed == []
    response.close()
    assert closed == expected


def test_connections_are_closed_unless_a_transaction_is_open(
    tmp_path: Path, django_db_blocker: Any
) -> None:
    with (
        django_db_blocker.unblock(),
        databases.scratch_database("sqlite3", tmp_path, CONN_MAX_AGE=60) as alias,
    ):
        connection = connections[alias]
        with transaction.atomic(using=alias):
            connection.ensure_connection()
            of_thread.close_unused()
            assert connection.connection is not None
        of_thread.close_unused()
        assert connection.connection is None
