"""The schemas of server cards and of the registry's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parent / "schemas"
"""The rules of the official schemas, each of which says where it comes from."""


def official(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.json").read_bytes())


def errors_of_card(document: Any) -> list[str]:
    schema = {**official("server-card"), "$ref": "#/$defs/ServerCard"}
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [error.message for error in validator.iter_errors(document)]


def errors_of_registry(document: Any) -> list[str]:
    checker = Draft202012Validator.FORMAT_CHECKER
    validator = Draft202012Validator(official("server"), format_checker=checker)
    return [error.message for error in validator.iter_errors(document)]
