"""A tried call as a command of curl, and as a test of the project."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pprint import pformat
from typing import Any

from django.contrib.auth import get_user_model

from django_mcp.core.protocol import request_meta
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.management.client_configuration import VARIABLE
from django_mcp.registry import Entry
from django_mcp.testing.connections.http import request_headers

ACCEPT = "application/json, text/event-stream"
CLIENT_INFO: Json = {"name": "curl", "version": "1"}
WIDTH = 76
"""Columns of a value in a test."""
COMPARED = {"tools/call": "content", "resources/read": "contents", "prompts/get": "messages"}
"""The member of a result that a test compares, by method."""


def curl(entry: Entry, url: str, method: str, params: Json, *, has_token: bool) -> str:
    """Return a command that sends the call. It reads the token from an environment variable."""
    meta = {
        request_meta.VERSION: NEWEST.version,
        request_meta.CLIENT_INFO: CLIENT_INFO,
        request_meta.CAPABILITIES: {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {"content-type": "application/json", "accept": ACCEPT}
    headers |= request_headers(entry.server, NEWEST.version, message)
    options = [f"--header {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    if has_token:
        options.append(f'--header "Authorization: Bearer ${VARIABLE}"')
    body = json.dumps(message, ensure_ascii=False)
    return " \\\n  ".join([f"curl {shlex.quote(url)}", *options, f"--data {shlex.quote(body)}"])


def test(entry: Entry, method: str, params: Json, scopes: Sequence[str], response: Json) -> str:
    """Return a test that expects this response; "" for a call that has not ended with a result."""
    result = response.get("result")
    if not isinstance(result, dict) or "taskId" in result:
        return ""
    if result.get("resultType", "complete") != "complete":
        return ""
    name = "".join(each if each.isalnum() else "_" for each in entry.component.name)
    lines = [
        *_imports(entry),
        "",
        "",
        f"class {name.title().replace('_', '')}Tests(TestCase):",
        f"    def test_{name}(self):",
        *_call(entry, method, params, scopes),
        *_assertions(method, result),
    ]
    return "\n".join(lines) + "\n"


def _imports(entry: Entry) -> Iterator[str]:
    yield "from django.contrib.auth import get_user_model"
    if _permission(entry):
        yield "from django.contrib.auth.models import Permission"
    yield "from django.test import TestCase"
    yield ""
    yield "from django_mcp.testing import SyncClient"


def _call(entry: Entry, method: str, params: Json, scopes: Sequence[str]) -> Iterator[str]:
    """The lines that make the user, and call the component."""
    yield f'        user = get_user_model().objects.create({get_user_model().USERNAME_FIELD}="ann")'
    permission = _permission(entry)
    if permission:
        app, _dot, codename = permission.partition(".")
        conditions = f'content_type__app_label="{app}", codename="{codename}"'
        yield f"        permission = Permission.objects.get({conditions})"
        yield "        user.user_permissions.add(permission)"
    options = f", scopes={[*scopes]!r}" if scopes else ""
    yield f"        with SyncClient({entry.server.name!r}, user=user{options}) as client:"
    if method == "resources/read":
        yield f"            result = client.read_resource({params['uri']!r})"
    else:
        function = "call_tool" if method == "tools/call" else "get_prompt"
        yield f"            arguments = {_value(params['arguments'], 12)}"
        yield f"            result = client.{function}({params['name']!r}, arguments)"


def _assertions(method: str, result: Json) -> Iterator[str]:
    """The lines that compare the result: its structure, where it has one, and else its content."""
    if method == "tools/call":
        assertion = "assertTrue" if result.get("isError") else "assertFalse"
        yield f"        self.{assertion}(result.is_error)"
    is_structured = "structuredContent" in result
    member = "structuredContent" if is_structured else COMPARED[method]
    yield f"        expected = {_value(result[member], 8)}"
    yield f"        self.assertEqual(result[{member!r}], expected)"


def _value(value: Any, indent: int) -> str:
    """A JSON value in Python, whose further lines are indented."""
    text = pformat(value, width=WIDTH, sort_dicts=False)
    return text.replace("\n", "\n" + " " * (indent + 4)) if "\n" in text else text


def _permission(entry: Entry) -> str:
    """The permission of Django that a caller needs; "" without one."""
    permission = entry.component.permission
    return permission if isinstance(permission, str) and "." in permission else ""
