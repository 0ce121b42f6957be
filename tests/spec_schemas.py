"""Validation of a server's messages against the official JSON schemas of its revision.

The environment variable DJANGO_MCP_SPEC_SCHEMAS names the folder that contains the schemas; without
it, nothing is validated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from django_mcp.core.protocol.revisions import Revision, Statefulness
from django_mcp.core.server.extensions import INSTALLED

FOLDER = "DJANGO_MCP_SPEC_SCHEMAS"


class SchemaMismatch(AssertionError):
    """The server sent a message that violates the official schema of its revision."""


def check(revision: Revision, message: Mapping[str, Any], method: str | None = None) -> None:
    """Raise SchemaMismatch if a message of a server violates the schema of its revision.

    ``method`` is the method of the request if the message is a response.
    """
    folder = os.environ.get(FOLDER)
    is_custom = not str(message.get("method", "notifications/")).startswith("notifications/")
    if is_custom and "id" not in message:
        return  # A notification of the application, which no schema describes.
    is_extended = method is not None and INSTALLED.method(method) is not None
    if message.get("method") in {name for one in INSTALLED.all for name in one.notifications}:
        is_extended = True
    if not folder or (is_extended and "error" not in message):
        return  # No official schema describes what an extension of a site sends.
    described = _of_tasks(revision, message, method)
    if described is None:
        _schema(folder, revision.version).check(message, method)
    else:
        _schema(folder, TASKS).validate(*described)


@cache
def _schema(folder: str, name: str) -> _Schema:
    return _Schema(json.loads((Path(folder) / f"{name}.json").read_bytes()))


TASKS = "tasks-extension"
"""The schema of the extension ``io.modelcontextprotocol/tasks``, which is a file of its own."""
TASK_RESULTS = {
    "tasks/get": "GetTaskResult",
    "tasks/update": "UpdateTaskResult",
    "tasks/cancel": "CancelTaskResult",
}


def _of_tasks(
    revision: Revision, message: Mapping[str, Any], method: str | None
) -> tuple[str, Any] | None:
    """The definition of the extension for a message, and what it validates; None: it has none."""
    if revision.statefulness is not Statefulness.STATELESS:
        return None
    if message.get("method") == "notifications/tasks":
        return "TaskStatusNotification", message
    result = message.get("result")
    if result is None:
        return None
    if result.get("resultType") == "task":
        return "CreateTaskResult", result
    return (TASK_RESULTS[method], result) if method in TASK_RESULTS else None


class _Schema:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._section = "$defs" if "$defs" in schema else "definitions"
        self._definitions: Mapping[str, Any] = schema[self._section]
        self._requests = self._by_method("ClientRequest")
        self._sent = self._by_method("ServerNotification") | self._by_method("ServerRequest")
        self._validators: dict[str, Validator] = {}

    def check(self, message: Mapping[str, Any], method: str | None) -> None:
        self.validate(*self._definition(message, method))

    def validate(self, name: str, value: Any) -> None:
        errors = [*islice(self._validator(name).iter_errors(value), 3)]
        if errors:
            described = "; ".join(f"{error.json_path}: {error.message}" for error in errors)
            raise SchemaMismatch(f"Invalid {name}: {described}\n{json.dumps(value)[:2000]}")

    def _definition(self, message: Mapping[str, Any], method: str | None) -> tuple[str, Any]:
        """The definition for a message, and the part of the message that it validates."""
        if "error" in message:
            # Older schemas require an id, which the error for an unreadable request lacks.
            return self._either("JSONRPCErrorResponse", "JSONRPCError"), {"id": 0, **message}
        if "result" in message:
            return self._result(message, method)
        if message["method"] not in self._sent:
            raise SchemaMismatch(f"In this revision, no server sends {message['method']}")
        return self._sent[message["method"]], message

    def _result(self, message: Mapping[str, Any], method: str | None) -> tuple[str, Any]:
        if method not in self._requests:
            raise SchemaMismatch(f"This revision has no result for {method}")
        if "task" in message["result"] and "CreateTaskResult" in self._definitions:
            return "CreateTaskResult", message["result"]
        stem = self._requests[method].removesuffix("Request")
        if f"{stem}ResultResponse" in self._definitions:
            return f"{stem}ResultResponse", message
        return self._either(f"{stem}Result", "EmptyResult"), message["result"]

    def _either(self, name: str, other: str) -> str:
        return name if name in self._definitions else other

    def _by_method(self, union: str) -> dict[str, str]:
        """The members of a union of requests or notifications by method."""
        members = self._definitions.get(union, {}).get("anyOf", ())
        names = [member["$ref"].rpartition("/")[2] for member in members]
        return {self._definitions[n]["properties"]["method"]["const"]: n for n in names}

    def _validator(self, name: str) -> Validator:
        if name not in self._validators:
            whole = {**self._schema, "$ref": f"#/{self._section}/{name}"}
            self._validators[name] = validator_for(self._schema)(whole)
        return self._validators[name]
