"""The check of components that are built when they are first read, such as tools of REST views."""

from __future__ import annotations

from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured

from django_mcp import registry
from django_mcp.checks.authentication import public_writes
from django_mcp.checks.base import TAG, Found, check
from django_mcp.checks.project import cannot_be_built
from django_mcp.components.base import ConfigurationError


@check(deploy=True)
def check_deferred_components() -> Found:
    """Build the components of all servers, and yield what the other checks then find besides.

    No other check of a deployment reads deferred components: their order is not defined.
    """
    before = _findings()
    for server in registry.servers():
        try:
            any(server.components.all())
            registry.check_declarations(server)
        except (ConfigurationError, ImproperlyConfigured) as error:
            yield cannot_be_built(server, error)
    yield from (message for message in _findings() if message not in before)
    yield from public_writes()


def _findings() -> list[CheckMessage]:
    """Return what the checks of every command find."""
    return run_checks(tags=[TAG])
