"""The caller of mcp_stdio, named by its options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from django_mcp import Frame, Server, registry
from django_mcp.transports.connection import stdio
from tests.spec import spec
from tests.wire.messages import CAPABILITIES, STATELESS, VERSION

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("shop")

    @server.tool
    async def whoami(frame: Frame) -> str:
        """Name the caller."""
        principal, name = frame.auth, frame.user.username or "nobody"
        assert principal is not None
        return f"{principal.scheme}:{principal.subject} {name}"

    @server.tool(permission="auth.view_user")
    async def guarded() -> str:
        """Need a permission."""
        return "permitted"

    @server.tool(scopes=["till"])
    async def scoped() -> str:
        """Need a scope."""
        return "granted"

    @server.tool(group="counter", read_only=True)
    async def prices() -> str:
        """Name a price."""
        return "1.00"

    monkeypatch.setattr(registry.registered, "servers", {"mcp": registry.default, "shop": server})


def call(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tool: str, **options: Any
) -> dict[str, Any]:
    """Return the response to a call over the command's standard input and output."""
    params = {"name": tool, "_meta": {VERSION: STATELESS, CAPABILITIES: {}}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    source, target = folder / "in", folder / "out"
    source.write_bytes(json.dumps(message).encode() + b"\n")

    @contextmanager
    def opened() -> Iterator[tuple[BinaryIO, BinaryIO]]:
        with source.open("rb") as lines, target.open("wb") as out:
            yield lines, out

    monkeypatch.setattr(stdio, "guarded_stdio", opened)
    call_command("mcp_stdio", server="shop", **options)
    response: dict[str, Any] = json.loads(target.read_bytes())
    return response


def text(response: dict[str, Any]) -> str:
    return str(response["result"]["content"][0]["text"])


def test_caller_is_anonymous_without_a_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert text(call(monkeypatch, tmp_path, "whoami")) == "stdio: nobody"
    assert "Unknown tool" in str(call(monkeypatch, tmp_path, "guarded"))


@spec("AUTH-01")
def test_named_user_is_the_caller_and_has_their_permissions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user = get_user_model().objects.create_superuser("alice")
    assert text(call(monkeypatch, tmp_path, "whoami", user="alice")) == f"stdio:{user.pk} alice"
    assert text(call(monkeypatch, tmp_path, "guarded", user="alice")) == "permitted"


@spec("AUTH-01")
def test_scopes_of_the_option_are_those_of_the_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "error" in call(monkeypatch, tmp_path, "scoped")
    assert text(call(monkeypatch, tmp_path, "scoped", scope=["till"])) == "granted"


@pytest.mark.parametrize("command", ["mcp_stdio", "mcp_call"])
def test_unknown_and_deactivated_users_are_rejected(command: str) -> None:
    get_user_model().objects.create_user("bob", is_active=False)
    arguments = ["whoami"] if command == "mcp_call" else []
    for name, message in (("bob", "'bob' is deactivated"), ("eve", "There is no user 'eve'")):
        with pytest.raises(CommandError, match=message):
            call_command(command, *arguments, server="shop", user=name)


def test_options_select_components(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = {"groups": "counter", "read_only": True}
    assert text(call(monkeypatch, tmp_path, "prices", **read)) == "1.00"
    assert "Unknown tool" in str(call(monkeypatch, tmp_path, "whoami", read_only=True))
    response = call(monkeypatch, tmp_path, "whoami", groups="cellar")
    assert "you can select counter" in response["error"]["message"]
    with pytest.raises(CommandError, match="names no group"):
        call(monkeypatch, tmp_path, "prices", groups=",")


def test_module_that_cannot_be_imported_is_not_served_by_half(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = registry.Broken("shop.mcp", NameError("name 'tea' is not defined"))
    monkeypatch.setattr(registry.registered, "broken", [broken])
    with pytest.raises(ImproperlyConfigured, match="shop.mcp cannot be imported: NameError"):
        call(monkeypatch, tmp_path, "whoami")
