"""Short answers for models: changed fields of a write, and wanted members of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol.errors import ToolError
from django_mcp.core.protocol.texts import did_you_mean
from django_mcp.openapi.arguments import DATA, Arguments

Answer = Literal["changed", "full"]
"""The answer of a write: the key and the sent fields, or the whole response of the view."""
ANSWERS = ("changed", "full")

FIELDS = "fields"
"""The argument with the members of rows."""
MIN_FIELDS = 5
"""Rows with fewer members have no argument FIELDS."""
KEYS = ("id", "pk", "uuid", "key", "slug", "url")
"""Members that identify an object; the first that an answer has is kept."""
CREATED = 201


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """A write that answers with the whole object."""

    path: Sequence[str]
    """Arguments of the path, which are kept beside the key."""
    keys: Sequence[str] = KEYS
    sent: frozenset[str] | None
    """The arguments that are fields of the object; None: the members of ``data``."""
    only_created: bool = False
    """Whether only a response of status 201 is known to be the object."""

    def shortened(self, value: Any, arguments: Mapping[str, Any], status: int) -> Any:
        """Return the key and the sent fields of an object; anything else is returned unchanged."""
        if not isinstance(value, Mapping) or (self.only_created and status != CREATED):
            return value
        data = arguments.get(DATA) if self.sent is None else arguments
        names = set(data) if isinstance(data, Mapping) else set()
        sent = names & value.keys() & (value.keys() if self.sent is None else self.sent)
        key = next((name for name in self.keys if name in value), None)
        kept = {*self.path, *sent, key}
        if not sent or not value.keys() & {*self.path, key}:
            return value
        return {name: value[name] for name in value if name in kept}


def check_answer(answer: Any) -> None:
    """Raise ConfigurationError for a value of ``answer`` that is unknown."""
    if answer is not None and answer not in ANSWERS:
        hint = did_you_mean(str(answer), ANSWERS, f"there are {', '.join(ANSWERS)}")
        raise ConfigurationError(f"answer is {answer!r}: {hint}")


def echo_of(method: str, arguments: Arguments, answer: Answer | None, **parts: Any) -> Echo | None:
    """Return how the answer of a write is shortened; None where it is not.

    A POST with a status other than 201 may answer with found or calculated values, so it is
    shortened only where the author says so: ``answer`` is None unless they do.
    """
    if method not in ("post", "put", "patch") or answer == "full":
        return None
    members = (arguments.body or {}).get("properties", ())
    sent = None if arguments.is_body_nested else frozenset(members)
    is_unknown = method == "post" and answer is None
    return Echo(path=[*arguments.path], sent=sent, only_created=is_unknown, **parts)


@dataclass(frozen=True, slots=True)
class RowFields:
    """The members of the rows of a list: a caller may want some of them."""

    names: tuple[str, ...]
    lists_names: bool
    """Whether the description has to say them: nothing else of the tool does."""

    @property
    def schema(self) -> dict[str, Any]:
        names = f": {', '.join(self.names)}" if self.lists_names else ""
        return {
            "type": "array",
            "items": {"type": "string"},
            "description": f"Members of rows to return{names}",
        }

    def selected(self, value: Any, arguments: Mapping[str, Any]) -> Any:
        """Return the rows with these members alone; raises ToolError for a name that none has."""
        wanted = arguments.get(FIELDS)
        if wanted is None:
            return value
        for name in wanted:
            if name not in self.names:
                hint = did_you_mean(name, self.names, f"there are {', '.join(self.names)}")
                raise ToolError(f"{FIELDS}: rows have no {name!r}; {hint}")
        if isinstance(value, list):
            return [_members(row, wanted) for row in value]
        if isinstance(value, Mapping):
            rows = {name: it for name, it in value.items() if isinstance(it, list)}
            shown = {name: [_members(row, wanted) for row in it] for name, it in rows.items()}
            return {**value, **shown} if len(rows) == 1 else value
        return value


def _members(row: Any, names: Sequence[str]) -> Any:
    """Return these members of a row, and a row that has none of them unchanged."""
    members = {name: row[name] for name in names if name in row} if isinstance(row, Mapping) else {}
    return members or row


def row_fields(
    schema: Mapping[str, Any] | None, arguments: Mapping[str, Any], *, lists_names: bool
) -> RowFields | None:
    """Return the members of the rows in an answer of this schema; None for few or unknown ones.

    ``arguments`` are those that the tool has already: a view may have an argument FIELDS itself.
    """
    row = (_list_schema(schema or {}) or {}).get("items")
    names = tuple(row.get("properties") or ()) if isinstance(row, Mapping) else ()
    return None if len(names) < MIN_FIELDS or FIELDS in arguments else RowFields(names, lists_names)


def has_rows(schema: Mapping[str, Any] | None) -> bool:
    """Whether an answer of this schema is a list, or an object with one list."""
    return _list_schema(schema or {}) is not None


def _list_schema(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if schema.get("type") == "array":
        return schema
    members = (schema.get("properties") or {}).values()
    lists = [it for it in members if isinstance(it, Mapping) and it.get("type") == "array"]
    return lists[0] if len(lists) == 1 else None
