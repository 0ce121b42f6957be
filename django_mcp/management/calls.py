"""Calls of commands: requests to a server of the site, in this process."""

from __future__ import annotations

import json
import os
from typing import Any

from django.core.management.base import CommandError

from django_mcp.core.auth.base import Principal
from django_mcp.core.components.base import Component
from django_mcp.core.frame.transport import StdioTransport


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a tool; raises CommandError."""
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise CommandError(f"The arguments are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise CommandError('The arguments are an object, such as \'{"text": "printer"}\'')
    return arguments


def transport() -> StdioTransport:
    """Return how the requests of a command arrive: over no network."""
    return StdioTransport(env=dict(os.environ), os_pid=os.getpid())


def missing_rights(component: Component | None, principal: Principal) -> str:
    """A hint for a component that may be hidden from the caller; empty where there is none."""
    if component is None or not (component.permission or component.scopes):
        return ""
    if principal.is_anonymous:
        return " (It is not for everybody: see --user and --scope)"
    needs = [f"the permission {component.permission}"] if component.permission else []
    needs += [f"the scope {scope}" for scope in sorted(component.scopes)]
    return f" (It needs {' and '.join(needs)}, which {principal.user} does not have)"
