"""Arguments that are not valid, and the text about them that a model reads.

It is written by ``describe_errors`` for annotations, and for a declared JSON Schema by
``unknown_arguments``, or by ``core/protocol/schema/validator.py``. The methods
(``core/dispatch/methods/``) put "Invalid arguments" before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from django_mcp.core.protocol.errors import Json

MAX_PROBLEMS = 8
MAX_LISTED_PROBLEMS = 1_000
"""pydantic takes a microsecond to describe each of them, and describes all or none."""
MAX_LENGTH = 200
"""Characters of an argument's name, and of what is wrong with it."""


class InvalidArguments(ValueError):
    """The arguments are invalid; ``problems`` has one clause for each, for the caller."""

    def __init__(self, problems: str) -> None:
        self.problems = problems
        super().__init__(problems)


class LargeArguments(InvalidArguments):
    """The arguments are too large to be validated in the event loop: validate them in a thread."""

    def __init__(self) -> None:
        super().__init__("they have too many values")


def describe_errors(error: ValidationError, accepted: Sequence[str] = ()) -> str:
    """One clause for each error, without the values."""
    problems = problems_of(error)
    if not problems:
        return f"there are {error.error_count()} problems, such as unknown members"
    clauses = [_clause(problem, accepted) for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        clauses.append(f"and {len(problems) - MAX_PROBLEMS} more")
    return "; ".join(clauses)


def _clause(problem: Any, accepted: Sequence[str]) -> str:
    path = ".".join(map(str, problem["loc"]))
    match problem["type"]:
        case "missing":
            text = "required, but missing"
        case "extra_forbidden" if len(problem["loc"]) == 1:
            text = _unknown(accepted)
        case "extra_forbidden":
            text = "unknown here"
        case _:
            text = problem["msg"]
    return f"{_short(path)}: {_short(text)}" if path else _short(text)


def _short(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def unknown_arguments(schema: Json, arguments: Mapping[str, Any]) -> str | None:
    """The error for arguments that are not in the schema, if there are no others; else None."""
    if schema.get("additionalProperties") is not False or "patternProperties" in schema:
        return None
    accepted = [*schema.get("properties", ())]
    unknown = [name for name in arguments if name not in accepted][:MAX_PROBLEMS]
    clauses = [f"{_short(name)}: {_unknown(accepted)}" for name in unknown]
    return "; ".join(clauses) or None


def _unknown(accepted: Sequence[str]) -> str:
    return f"unknown argument (accepted: {', '.join(accepted) or 'none'})"


def problems_of(error: ValidationError) -> Sequence[Any]:
    """What pydantic says about the problems; nothing of so many that listing them takes long."""
    if error.error_count() > MAX_LISTED_PROBLEMS:
        return ()
    return error.errors(include_url=False, include_context=False, include_input=False)
