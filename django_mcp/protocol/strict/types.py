"""The types of JSON values in the schema of the protocol, as far as a server sends them.

A type is a function that yields the problems of a value, which depend on the revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django_mcp.protocol.revisions import Revision, Structured

Problems = Iterator[tuple[str, str]]
"""The path of each problem, and its description."""
Type = Callable[[Any, Revision], Problems]


def _type(accepts: Callable[[Any], bool], problem: str) -> Type:
    def check(value: Any, revision: Revision) -> Problems:
        if not accepts(value):
            yield "", problem

    return check


def _is_number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


string = _type(lambda value: isinstance(value, str), "is not a string")
boolean = _type(lambda value: isinstance(value, bool), "is neither true nor false")
number = _type(lambda value: _is_number(value, int, float), "is not a number")
unsigned = _type(
    lambda value: _is_number(value, int) and value >= 0, "is not a whole number of at least 0"
)
token = _type(lambda value: _is_number(value, int, str), "is neither a string nor an integer")
any_object = _type(lambda value: isinstance(value, Mapping), "is not an object")
any_value = _type(lambda value: True, "")
object_schema = _type(
    lambda value: isinstance(value, Mapping) and value.get("type") == "object",
    'is not a JSON Schema of "type": "object"',
)


def one_of(*values: Any) -> Type:
    return _type(lambda value: value in values, f"is none of {', '.join(map(repr, values))}")


def list_of(item: Type, *, maximum: int | None = None) -> Type:
    def check(value: Any, revision: Revision) -> Problems:
        if not isinstance(value, list | tuple):
            yield "", "is not a list"
            return
        if maximum is not None and len(value) > maximum:
            yield "", f"has more than {maximum} items"
        for index, each in enumerate(value):
            yield from _below(f"[{index}]", item(each, revision))

    return check


def output_schema(value: Any, revision: Revision) -> Problems:
    expected = object_schema if revision.structured is Structured.OBJECT else any_object
    return expected(value, revision)


def structured_content(value: Any, revision: Revision) -> Problems:
    if revision.structured is Structured.NOTHING:
        yield "", "is not known to this revision"
    elif revision.structured is Structured.OBJECT:
        yield from any_object(value, revision)


@dataclass(frozen=True, eq=False)
class ObjectType:
    """An object with named members; names are given in one string, separated by spaces."""

    required: str = ""
    optional: str = ""
    kind: str | None = None
    """The key of ``Revision.fields`` under which a revision lists the members that it knows."""
    types: Mapping[str, Type] = field(default_factory=dict)
    """The types of members that differ from ``MEMBERS``."""
    exactly_one: str = ""
    is_open: bool = False
    """Whether other members are allowed, with any value."""

    def __call__(self, value: Any, revision: Revision) -> Problems:
        if not isinstance(value, Mapping):
            yield "", "is not an object"
            return
        for name in self.required.split():
            if name not in value:
                yield f".{name}", "is missing"
        alternatives = self.exactly_one.split()
        if alternatives and sum(name in value for name in alternatives) != 1:
            yield "", f"has not exactly one of {', '.join(alternatives)}"
        own = f"{self.required} {self.optional} {self.exactly_one}".split()
        known = own if self.kind is None else revision.fields[self.kind]
        for name, member in value.items():
            if name in known:
                check = self.types.get(name) or MEMBERS.get(name, any_value)
                yield from _below(f".{name}", check(member, revision))
            elif not self.is_open:
                yield f".{name}", "is not known to this revision"


def _below(location: str, problems: Problems) -> Problems:
    for path, problem in problems:
        yield location + path, problem


ANNOTATIONS = ObjectType(kind="annotations")
ICONS = list_of(ObjectType("src", "mimeType sizes theme"))

_LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_MEMBERS: Mapping[Type, str] = {
    ANNOTATIONS: "annotations",
    ICONS: "icons",
    string: (
        "blob data description elicitationId instructions lastModified logger message mimeType "
        "name nextCursor protocolVersion reason requestState src systemPrompt text title type uri "
        "uriTemplate url version websiteUrl"
    ),
    boolean: "destructiveHint hasMore idempotentHint isError openWorldHint readOnlyHint required",
    number: "priority progress temperature total",
    unsigned: "maxTokens size ttlMs",
    token: "progressToken requestId",
    any_object: "_meta capabilities inputRequests metadata modelPreferences toolChoice",
    list_of(string): "sizes stopSequences supportedVersions",
    object_schema: "inputSchema requestedSchema",
    output_schema: "outputSchema",
    structured_content: "structuredContent",
    one_of("complete"): "resultType",
    one_of("private", "public"): "cacheScope",
    one_of("user", "assistant"): "role",
    list_of(one_of("user", "assistant")): "audience",
    one_of("light", "dark"): "theme",
    one_of("form", "url"): "mode",
    one_of("none", "thisServer", "allServers"): "includeContext",
    one_of("forbidden", "optional", "required"): "taskSupport",
    one_of(*_LOG_LEVELS): "level",
}
MEMBERS = {name: kind for kind, names in _MEMBERS.items() for name in names.split()}
"""The type of each member that has the same type in nearly all objects of the protocol."""
