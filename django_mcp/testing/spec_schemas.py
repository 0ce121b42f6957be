"""The official JSON schemas of the revisions: does what a server sends fit its own?

They are not part of this package. Whoever has them names their folder in the environment
variable DJANGO_MCP_SPEC_SCHEMAS; without it nothing is checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from django_mcp.protocol.revisions import Revision

FOLDER = "DJANGO_MCP_SPEC_SCHEMAS"


class Unofficial(AssertionError):
    """The server sent something that the schema of its revision does not allow."""


def check(revision: Revision, message: Mapping[str, Any], method: str | None = None) -> None:
    """Raise Unofficial for a message of a server which does not fit its revision.

    ``method`` is the one which a response answers.
    """
    folder = os.environ.get(FOLDER)
    if folder:
        _Official.of(folder, revision.version).check(message, method)


class _Official:
    """The schema of one revision."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._section = "$defs" if "$defs" in schema else "definitions"
        self._definitions: Mapping[str, Any] = schema[self._section]
        self._requests = self._by_method("ClientRequest")
        self._sent = self._by_method("ServerNotification") | self._by_method("ServerRequest")
        self._validators: dict[str, Validator] = {}

    @staticmethod
    @cache
    def of(folder: str, version: str) -> _Official:
        return _Official(json.loads((Path(folder) / f"{version}.json").read_bytes()))

    def check(self, message: Mapping[str, Any], method: str | None) -> None:
        name, value = self._meant(message, method)
        problems = [
            f"{error.json_path}: {error.message}"
            for error in self._validator(name).iter_errors(value)
        ]
        if problems:
            said = "; ".join(problems[:3])
            raise Unofficial(f"This is no {name}: {said}\n{json.dumps(message)[:2000]}")

    def _meant(self, message: Mapping[str, Any], method: str | None) -> tuple[str, Any]:
        """The definition which a message has to fit, and the part of it which has to."""
        if "error" in message:
            # Older schemas know no error without an id, and yet there are some.
            return self._either("JSONRPCErrorResponse", "JSONRPCError"), {"id": 0, **message}
        if "result" in message:
            return self._result(message, method)
        if message["method"] not in self._sent:
            raise Unofficial(f"No server of this revision sends {message['method']}")
        return self._sent[message["method"]], message

    def _result(self, message: Mapping[str, Any], method: str | None) -> tuple[str, Any]:
        if method not in self._requests:
            raise Unofficial(f"No server of this revision answers {method} with a result")
        stem = self._requests[method].removesuffix("Request")
        if f"{stem}ResultResponse" in self._definitions:
            return f"{stem}ResultResponse", message
        return self._either(f"{stem}Result", "EmptyResult"), message["result"]

    def _either(self, name: str, other: str) -> str:
        return name if name in self._definitions else other

    def _by_method(self, union: str) -> dict[str, str]:
        """The members of a union of requests or notifications, by their methods."""
        members = self._definitions.get(union, {}).get("anyOf", ())
        names = [member["$ref"].rpartition("/")[2] for member in members]
        return {self._definitions[n]["properties"]["method"]["const"]: n for n in names}

    def _validator(self, name: str) -> Validator:
        """A validator for one definition, compiled once."""
        if name not in self._validators:
            whole = {**self._schema, "$ref": f"#/{self._section}/{name}"}
            self._validators[name] = validator_for(self._schema)(whole)
        return self._validators[name]
