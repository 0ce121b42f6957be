"""Checks of tools, resources and prompts, also of those that are built when they are first read."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Warning, run_checks
from django.core.exceptions import ImproperlyConfigured

from django_mcp import conf, registry
from django_mcp.checks import TAG
from django_mcp.checks.authentication import public_writes
from django_mcp.checks.base import Found, check
from django_mcp.checks.project import cannot_be_built
from django_mcp.core.components.base import USER_CHECKS, ConfigurationError
from django_mcp.core.components.declaration import DECLARED, ComponentAttributes
from django_mcp.core.components.prompt import Prompt
from django_mcp.core.components.tool import Tool
from django_mcp.core.protocol.revisions import BY_VERSION, Structured
from django_mcp.core.protocol.schema.compiler import to_object_root
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.core.server.server import Server
from django_mcp.registry import registered_entries
from django_mcp.tasks.steps import is_task_at_once


@check()
def check_extensions() -> Found:
    for extension in INSTALLED.all:
        if extension.check is not None:
            yield from extension.check()


MAX_TOKENS = 25_000
"""Of the tools of a server. Hosts that do not defer tools put all into each conversation."""


@check()
def check_permissions() -> Found:
    # Only the database knows whether a permission of an installed app exists.
    labels = {config.label for config in apps.get_app_configs()}
    for entry in registered_entries():
        permission = entry.component.permission
        if permission in USER_CHECKS:
            continue
        if isinstance(permission, str) and permission.partition(".")[0] not in labels:
            yield Warning(
                f"The {entry.kind} {entry.component.name!r} at {entry.component.source} needs the "
                f"permission {permission!r}, but no installed app has that label.",
                hint='Write "app_label.codename", for instance "auth.view_user".',
                id="django_mcp.W004",
            )


@check()
def check_classes() -> Found:
    """Yield a warning for each class of a module ``mcp`` that is registered nowhere."""
    for app in apps.get_app_configs():
        module = sys.modules.get(f"{app.name}.mcp")
        for value in [*vars(module).values()] if module else ():
            is_class = isinstance(value, type) and issubclass(value, ComponentAttributes)
            # A class with subclasses is a base.
            if not is_class or value in DECLARED or value.__subclasses__():
                continue
            if value.__module__ == f"{app.name}.mcp":
                yield _unregistered(value)


def _unregistered(component: type[ComponentAttributes]) -> CheckMessage:
    kinds = {Tool: "tool", Prompt: "prompt"}
    kind = next((name for base, name in kinds.items() if issubclass(component, base)), "resource")
    return Warning(
        f"{component.__module__}.{component.__qualname__} is declared like a {kind}, but is "
        "registered on no server: no client sees it.",
        hint=f"Decorate the class with @{kind}, or silence this check if the class is registered "
        "while a session runs.",
        id="django_mcp.W063",
    )


@check()
def check_output_schemas() -> Found:
    site = conf.get()
    # Most schemas which are not for objects are wrapped in one for older clients, and need no
    # warning.
    if all(BY_VERSION[v].structured is not Structured.OBJECT for v in site.protocol_versions):
        return
    for entry in registered_entries():
        schema = getattr(entry.component, "output_schema", None)
        if schema is not None and to_object_root(schema) is None:
            yield Warning(
                f"The output schema of the tool {entry.component.name!r} at "
                f"{entry.component.source} is not for an object and cannot be wrapped in one, "
                "so that it is not listed to clients of older revisions.",
                hint='Refer to "#/$defs/…" instead of "#", or describe an object.',
                id="django_mcp.W005",
            )


@check()
def check_input_requests() -> Found:
    # An undeclared one repeats, when it runs again, its writes before the input request: they are
    # rolled back only where it is declared.
    for entry in registered_entries():
        component = entry.component
        if component.requests_input or is_task_at_once(component):
            continue
        if _requests_input(component.handler):
            yield Warning(
                f"The {entry.kind} {entry.component.name!r} at {entry.component.source} seems to "
                "request input from the client, which it does not declare.",
                hint="Set requests_input=True.",
                id="django_mcp.W009",
            )


INPUT_METHODS = frozenset(
    prefix + name
    for prefix in ("", "a")
    for name in ("ask", "elicit", "elicit_url", "create_message", "list_roots")
)
"""The methods of the client which request input."""
CALL_DEPTH = 4
"""How far functions are followed into the functions and methods which they call by name."""


def _requests_input(handler: Any, depth: int = CALL_DEPTH) -> bool:
    """Whether the code of a handler, or of a function that it calls, names an input method."""
    function = inspect.unwrap(getattr(handler, "func", handler))
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None or depth == 0:
        return False
    names = set(_names(code))
    if names & INPUT_METHODS:
        return True
    module = getattr(function, "__globals__", {})
    owner = type(getattr(handler, "__self__", None))
    called = [module.get(name) for name in names]
    called += [inspect.getattr_static(owner, name, None) for name in names]
    return any(_requests_input(item, depth - 1) for item in called if inspect.isfunction(item))


def _names(code: CodeType) -> Iterator[str]:
    """Yield every name in the code, also of functions defined inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@check(deploy=True)
def check_deferred_components() -> Found:
    """Build the components of all servers, and yield the further findings of the other checks.

    No other check of a deployment reads deferred components: their order is not defined.
    """
    before = run_checks(tags=[TAG])
    for server in registry.servers():
        try:
            any(server.components.all())
            registry.check_declarations(server)
            yield from _left_out(server)
            yield from large_list(server)
        except (ConfigurationError, ImproperlyConfigured) as error:
            yield cannot_be_built(server, error)
    yield from (message for message in run_checks(tags=[TAG]) if message not in before)
    yield from public_writes()


def _left_out(server: Server) -> Found:
    for component, reason in server.components.left_out.items():
        yield Warning(
            f"The MCP server {server.name!r} lacks a {component.kind}: {reason}",
            hint="Correct it. All others work.",
            id="django_mcp.W076",
        )


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
