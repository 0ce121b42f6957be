"""Whether a server checks what it sends, for as long as a test client is open.

A Server is shared, by clients and by the tests that make them. The client that was opened last has
its way; when all are closed the server is as it was before the first. Of what is checked this
file knows nothing.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from django_mcp.server.server import Server

_BEFORE = 0
_wishes: WeakKeyDictionary[Server, dict[int, bool]] = WeakKeyDictionary()


def wish(server: Server, client: int, *, strict: bool) -> None:
    """Let ``server`` be as strict as this client, which is known by its id, wants it."""
    wishes = _wishes.setdefault(server, {_BEFORE: server.options.strict})
    wishes[client] = strict
    renew(server)


def withdraw(server: Server, client: int) -> None:
    """Let the other open clients have their way again, or the site."""
    _wishes[server].pop(client)
    renew(server)
    if [*_wishes[server]] == [_BEFORE]:
        del _wishes[server]


def renew(server: Server) -> None:
    """Let open clients have their way although the server was given the site's settings."""
    if server in _wishes:
        *_, strict = _wishes[server].values()
        server.options = replace(server.options, strict=strict)
