"""Authenticators whose database hangs or is away: the caller is told to come back, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from django.db import OperationalError
from rest_framework.authentication import BaseAuthentication

from django_mcp import Server
from django_mcp.auth import django_session
from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.auth.oauth_toolkit import OAuthToolkitAuthentication
from django_mcp.auth.rest_framework import RESTFrameworkAuthentication
from django_mcp.auth.token import TokenAuthentication, new_token
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.testing.asgi import Reply
from tests.memory_stores import Configure, configure
from tests.wire.asgi import AsgiClient

__all__ = ["configure"]

PATIENCE = 20.0


class Database:
    """A database which hangs, or is away."""

    def __init__(self) -> None:
        self.is_away = False
        self.goes_on = threading.Event()

    def ask(self, *_: object, **__: object) -> None:
        if self.is_away:
            raise OperationalError("connection refused")
        self.goes_on.wait(PATIENCE)

    async def aask(self, *_: object, **__: object) -> None:
        if self.is_away:
            raise OperationalError("connection refused")
        await asyncio.sleep(PATIENCE)


@pytest.fixture
def database() -> Iterator[Database]:
    database = Database()
    yield database
    database.goes_on.set()


def by_token(database: Database, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, str]]:
    monkeypatch.setattr(PersonalAccessToken.objects, "find_valid", database.aask)
    return TokenAuthentication(), {"authorization": f"Bearer {new_token()}"}


def by_cookie(database: Database, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, str]]:
    monkeypatch.setattr(django_session, "get_user", database.ask)
    return DjangoSessionAuthentication(), {"cookie": "sessionid=x"}


def by_rest_framework(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, dict[str, str]]:
    class Probing(BaseAuthentication):  # type: ignore[misc]
        def authenticate(self, request: Any) -> None:
            database.ask()

        def authenticate_header(self, request: Any) -> str:
            return "Probing"

    return RESTFrameworkAuthentication(Probing), {}


def by_toolkit(database: Database, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, str]]:
    authenticator = OAuthToolkitAuthentication()

    class Rows:
        @staticmethod
        def using(*_: str) -> Any:
            return Rows

        @staticmethod
        def select_related(*_: str) -> Any:
            return Rows

        @staticmethod
        def filter(**_: object) -> Any:
            return Rows

        afirst = database.aask

    class Model:
        objects = Rows

    monkeypatch.setattr(authenticator, "_model", Model)
    return authenticator, {"authorization": "Bearer x"}


KINDS = (by_token, by_cookie, by_rest_framework, by_toolkit)
Kind = Callable[[Database, pytest.MonkeyPatch], tuple[Any, dict[str, str]]]


@pytest.fixture(params=KINDS, ids=[kind.__name__ for kind in KINDS])
def ask(
    request: pytest.FixtureRequest, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Coroutine[Any, Any, Reply]]:
    authenticator, headers = request.param(database, monkeypatch)

    async def ask() -> Reply:
        wire = AsgiClient(Server("shop", authenticators=[authenticator]), headers=headers)
        return await wire.post(wire.request("tools/list"))

    return ask


async def test_request_is_answered_in_time_while_the_database_hangs(
    configure: Configure, ask: Callable[[], Coroutine[Any, Any, Reply]], database: Database
) -> None:
    configure(STORE_TIMEOUT=0.1)
    probing = asyncio.ensure_future(ask())
    # What was begun on a thread ends there, after the answer.
    asyncio.get_running_loop().call_later(1.0, database.goes_on.set)
    reply = await probing
    assert (reply.status, reply.json()["error"]["code"]) == (503, -32603)
    assert int(reply.headers["retry-after"]) > 0


async def test_request_fails_cleanly_while_the_database_is_away(
    configure: Configure, ask: Callable[[], Coroutine[Any, Any, Reply]], database: Database
) -> None:
    database.is_away = True
    reply = await ask()
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0
    assert b"refused" not in reply.body
