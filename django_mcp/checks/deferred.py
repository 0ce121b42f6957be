"""The check of components that are built when they are first read, such as tools of REST views."""

from __future__ import annotations

from django.core.checks import CheckMessage, Warning, run_checks
from django.core.exceptions import ImproperlyConfigured

from django_mcp import registry
from django_mcp.checks import TAG
from django_mcp.checks.authentication import public_writes
from django_mcp.checks.base import Found, check
from django_mcp.checks.project import cannot_be_built
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.server.server import Server

MAX_TOKENS = 25_000
"""Of the tools of a server. Hosts that do not defer tools put all into each conversation."""


@check(deploy=True)
def check_deferred_components() -> Found:
    """Build the components of all servers, and yield the further findings of the other checks.

    No other check of a deployment reads deferred components: their order is not defined.
    """
    before = _findings()
    for server in registry.servers():
        try:
            any(server.components.all())
            registry.check_declarations(server)
            yield from large_list(server)
        except (ConfigurationError, ImproperlyConfigured) as error:
            yield cannot_be_built(server, error)
    yield from (message for message in _findings() if message not in before)
    yield from public_writes()


def large_list(server: Server) -> Found:
    """Yield a warning if the list of tools of a server fills the context of a model."""
    tools = (entry for entry in registry.entries(server) if entry.component.kind == "tool")
    listed = (each for each in tools if each.component.always_load or not server.short_lists)
    size = sum(entry.tokens for entry in listed)
    if size > MAX_TOKENS:
        yield Warning(
            f"The tools of the MCP server {server.name!r} take about {size:,} tokens of the "
            f"context of a model, more than {MAX_TOKENS:,}.",
            hint="See mcp_show --describe for the largest ones. Offer fewer tools, or set "
            "tool_search=True on the server.",
            id="django_mcp.W041",
        )


def _findings() -> list[CheckMessage]:
    """Return the findings of the checks of every command."""
    return run_checks(tags=[TAG])
