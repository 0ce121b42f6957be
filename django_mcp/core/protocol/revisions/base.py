"""Revisions of the specification as values, each derived from the previous one.

The rest of the package makes objects as the newest revision has them. Before they are sent, a
revision removes the members that it lacks (a *trim*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from django_mcp.core.protocol import elicitation, tasks
from django_mcp.core.protocol.errors import Json, McpError, MissingClientCapability
from django_mcp.core.protocol.schema.compiler import (
    is_object_root,
    to_object_root,
    without_boolean_properties,
)
from django_mcp.core.protocol.texts import resolved


class Statefulness(Enum):
    """Where a client describes itself: once per session, or in the metadata of every request."""

    SESSION = auto()
    STATELESS = auto()


class Structured(Enum):
    """The types of a tool's structured content."""

    NOTHING = auto()
    OBJECT = auto()
    ANYTHING = auto()


class Feature(Enum):
    """A rule of the protocol that some revisions have and others lack."""

    # Every request looks members up in sets, and the hash of Enum is a Python function.
    __hash__ = object.__hash__

    BATCHES = auto()
    """A message may be a list of messages."""
    VERSION_HEADER = auto()
    """Every HTTP request after the first has the header MCP-Protocol-Version."""
    PRIMING_EVENTS = auto()
    """A stream starts with an event id to resume from, and may be closed early for polling."""
    COMPLETION_CONTEXT = auto()
    """A completion request contains the arguments that are already chosen."""
    UNDECLARED_COMPLETION = auto()
    """completion/complete may be called although no capability declares it."""
    RESULT_TYPES = auto()
    """Every result has ``resultType`` and describes the server in ``_meta``."""
    REQUEST_HEADERS = auto()
    """An HTTP request repeats parts of its body in headers."""
    MULTI_ROUND_TRIP = auto()
    """The server requests input in a result, and the client retries the request with the input."""
    LISTEN_STREAMS = auto()
    """Change notifications are sent on the stream of a subscriptions/listen request."""
    DISCONNECT_CANCELS = auto()
    """A client cancels a request by closing its connection."""
    URL_ELICITATION = auto()
    """The server may request that the user visits a page."""
    RICH_ELICITATION = auto()
    """Forms have titled choices, multiple choices, and defaults of every type."""
    SAMPLING_TOOLS = auto()
    """Sampling messages may hold several blocks, tool uses and tool results."""
    ARGUMENT_ERRORS_AS_RESULTS = auto()
    """The model reads errors of a tool's arguments, in a result with ``isError``."""
    TASKS = auto()
    """The client requests a task, and receives its result in a request of its own."""
    TASKS_EXTENSION = auto()
    """The server decides whether a call becomes a task, for clients of the tasks extension."""
    BOOLEAN_PROPERTIES = auto()
    """The schema of a property of a tool's arguments or result may be true or false."""


Trim = Callable[["Revision", dict[str, Any]], dict[str, Any]]
"""Takes an object of the newest revision, and returns it as an older one has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One published revision of MCP; clients send ``requests`` and ``notifications``."""

    version: str
    statefulness: Statefulness
    requests: frozenset[str]
    notifications: frozenset[str]
    server_notifications: frozenset[str]
    server_requests: frozenset[str]
    """Requests the server may send to the client, or include in a result as input requests."""
    capabilities: Mapping[str, frozenset[str]]
    """Server capabilities, each with the flags it may have."""
    fields: Mapping[str, frozenset[str]]
    """The members of each kind of object that the server sends."""
    blocks: frozenset[str]
    """Types of content in results."""
    sampling_blocks: frozenset[str]
    """Types of content in messages for the client's model."""
    structured: Structured
    error_codes: Mapping[str, int]
    http_statuses: Mapping[str, int]
    """The HTTP status of an error by its reason; 200 for every other reason."""
    features: frozenset[Feature]
    cacheable: frozenset[str] = frozenset()
    """Methods with cache hints in their results."""
    reserved_codes: frozenset[int] = frozenset()
    """Codes with a defined meaning, which the errors of handlers cannot have."""
    deprecated: frozenset[str] = frozenset()
    """Requests and notifications of the server that new code should not use."""
    input_request_methods: frozenset[str] = frozenset()
    """Methods that may be answered with an input request."""
    meta_members: frozenset[str] = frozenset()
    """Members of ``_meta`` for clients that read it although the revision has none."""

    def revise(
        self, version: str, *, adds: Json | None = None, drops: Json | None = None, **changed: Any
    ) -> Revision:
        """Return the next revision, derived from this one.

        ``adds`` and ``drops`` are the members that are added to fields and removed, by field.
        ``changed`` are new values of fields. A set of names may be one string, separated by
        spaces; the value for a field that maps names to sets or numbers is a mapping.
        """
        values: dict[str, Any] = {}
        for name, added in (adds or {}).items():
            values[name] = _add(getattr(self, name), added)
        for name, dropped in (drops or {}).items():
            present = values.get(name, getattr(self, name))
            if isinstance(present, frozenset):
                values[name] = present - names(dropped)
            else:
                values[name] = {
                    key: value - names(dropped.get(key, ())) for key, value in present.items()
                }
        return replace(self, version=version, **values, **changed)

    def has(self, feature: Feature) -> bool:
        return feature in self.features

    def known_fields(self, kind: str, value: Json) -> dict[str, Any]:
        """Return the members of ``value``, an object of this kind, that the revision has.

        An object of a kind that an extension has added is returned as it is.
        """
        known = self.fields.get(kind, value.keys())
        if value.keys() <= known:
            return dict(value)
        return {name: member for name, member in value.items() if name in known}

    def describe(self, kind: str, descriptor: Json) -> dict[str, Any]:
        """Return a descriptor as it is listed to clients of this revision."""
        described = self._with_meta(descriptor, self.known_fields(kind, descriptor))
        # The annotations of a tool are other ones: its hints.
        if "annotations" in described and kind != "tool":
            described["annotations"] = self.known_fields("annotations", described["annotations"])
        if "arguments" in described:
            described["arguments"] = [
                self.known_fields("argument", argument) for argument in described["arguments"]
            ]
        if "outputSchema" in described and self.structured is Structured.OBJECT:
            object_schema = to_object_root(described.pop("outputSchema"))
            if object_schema is not None:
                described["outputSchema"] = object_schema
        if Feature.BOOLEAN_PROPERTIES not in self.features:
            for member in described.keys() & {"inputSchema", "outputSchema"}:
                described[member] = without_boolean_properties(described[member])
        return described

    def _with_meta(self, value: Json, known: dict[str, Any]) -> dict[str, Any]:
        """Add ``_meta`` of ``value`` to ``known``, a part of it, if it has one of ``meta_members``.

        Hosts read them in any revision, even where tools and resources have no ``_meta``.
        """
        meta = value.get("_meta")
        if meta is not None and "_meta" not in known and not self.meta_members.isdisjoint(meta):
            known["_meta"] = meta
        return known

    def read_contents(self, contents: Json) -> dict[str, Any]:
        """Return an item of a read resource as this revision has it."""
        return self._with_meta(contents, self.known_fields("contents", contents))

    def structured_content(self, value: Any, schema: Json | None) -> Any:
        """Return ``value``, wrapped as ``{"result": value}`` where the revision needs an object.

        If there is a schema, it decides, because it is listed wrapped in the same way.
        """
        if self.structured is not Structured.OBJECT:
            return value
        is_object = isinstance(value, dict) if schema is None else is_object_root(schema)
        return value if is_object else {"result": value}

    def encoded_structured_content(self, json: bytes, schema: Json | None) -> bytes:
        """Return what ``structured_content`` returns, for a value that is JSON already."""
        if self.structured is not Structured.OBJECT:
            return json
        is_object = json[:1] == b"{" if schema is None else is_object_root(schema)
        return json if is_object else b'{"result":%b}' % json

    def describe_capabilities(self, capabilities: Json) -> dict[str, Any]:
        """Return the server's capabilities and flags that this revision has."""
        described = {}
        for name, flags in capabilities.items():
            members = self.capabilities.get(name)
            if members is None:
                continue
            has_all = "*" in members
            described[name] = {
                flag: value for flag, value in flags.items() if has_all or flag in members
            }
        if "tasks" in capabilities and self.has(Feature.TASKS_EXTENSION):
            extensions = described.get("extensions", {})
            described["extensions"] = {**extensions, tasks.EXTENSION: {}}
        return described

    def serialize_result(
        self, method: str, result: dict[str, Any], *, server_info: Json, cache: Json
    ) -> dict[str, Any]:
        """Return the result of ``method`` to be sent: trimmed, with type, meta and cache hints."""
        trim = RESULT_TRIMS.get(method)
        # The newest revisions have every member; only older ones lack some.
        if trim is not None and self.structured is not Structured.ANYTHING:
            result = trim(self, result)
        if Feature.RESULT_TYPES not in self.features:
            return result
        result_type = result.setdefault("resultType", "complete")
        if result_type == "complete" and method in self.cacheable:
            result = {**cache, **result}
        meta = {"io.modelcontextprotocol/serverInfo": server_info}
        own_meta = result.get("_meta")
        result["_meta"] = {**meta, **own_meta} if own_meta else meta
        return result

    def input_request(self, method: str, params: Json) -> dict[str, Any]:
        """Return the parameters of a request to the client, as this revision has them.

        Raises MissingClientCapability for parameters that no client of this revision supports.
        """
        trimmed = dict(params)
        if method in self.fields:
            trimmed = self.known_fields(method, params)
        trim = INPUT_REQUEST_TRIMS.get(method)
        return trimmed if trim is None else trim(self, trimmed)

    def error_code(self, error: McpError) -> int:
        """Return the code of ``error``: its own, or the code of its reason in this revision."""
        if error.code is None or error.code in self.reserved_codes:
            return self.error_codes[error.reason]
        return error.code

    def error(self, error: McpError) -> dict[str, Any]:
        """Return the error object of JSON-RPC."""
        described = {"code": self.error_code(error), "message": str(error.message)}
        if error.data is not None:
            described["data"] = resolved(error.data)
        return described

    def http_status(self, error: McpError) -> int:
        """Return the HTTP status of an error response before the stream has started."""
        return self.http_statuses.get(error.reason, 200)


def names(value: str | Iterable[Any]) -> frozenset[Any]:
    """Return a set of names that are separated by spaces; other values become a set as they are."""
    return frozenset(value.split() if isinstance(value, str) else value)


def _add(present: Any, added: Any) -> Any:
    """Return a field with added members: a set, or a mapping to sets or to numbers."""
    if isinstance(present, frozenset):
        return present | names(added)
    merged = dict(present)
    for name, value in added.items():
        if isinstance(value, int):
            merged[name] = value
        else:
            merged[name] = merged.get(name, frozenset()) | names(value)
    return merged


def trim_block(revision: Revision, block: dict[str, Any]) -> dict[str, Any]:
    """Return a content block with the members that ``revision`` has.

    A block of a type that it does not have is replaced by one of another type.
    """
    kind = block["type"]
    if kind not in revision.blocks:
        return _replacement(block)
    trimmed = revision.known_fields(f"{kind}_content", block)
    if "annotations" in trimmed:
        trimmed["annotations"] = revision.known_fields("annotations", trimmed["annotations"])
    if kind == "resource":
        trimmed["resource"] = revision.known_fields("contents", trimmed["resource"])
    return trimmed


def _replacement(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block that replaces audio or a resource link, the types that revisions lack."""
    if block["type"] == "audio":
        contents = {"uri": "urn:mcp:audio", "mimeType": block["mimeType"], "blob": block["data"]}
        return {"type": "resource", "resource": contents}
    description = f"\n{block['description']}" if block.get("description") else ""
    return {"type": "text", "text": f"{block['name']}: {block['uri']}{description}"}


def _trim_tool_result(revision: Revision, result: dict[str, Any]) -> dict[str, Any]:
    if "content" not in result:
        return result
    trimmed = revision.known_fields("tools/call", result)
    trimmed["content"] = [trim_block(revision, block) for block in result["content"]]
    return trimmed


def _trim_prompt_result(revision: Revision, result: dict[str, Any]) -> dict[str, Any]:
    messages = []
    for message in result.get("messages", ()):
        content = trim_block(revision, message["content"])
        messages.append({**message, "content": content})
    return {**result, "messages": messages}


def _trim_read_result(revision: Revision, result: dict[str, Any]) -> dict[str, Any]:
    contents = [revision.read_contents(item) for item in result.get("contents", ())]
    # The cache hints that a resource may have are not known to this revision.
    kept = {name: member for name, member in result.items() if name == "_meta"}
    return {**kept, "contents": contents}


def _trim_form(revision: Revision, params: dict[str, Any]) -> dict[str, Any]:
    schema = params.get("requestedSchema")
    if schema is None or revision.has(Feature.RICH_ELICITATION):
        return params
    if elicitation.has_several_choices(schema):
        raise MissingClientCapability(
            f"MCP {revision.version} cannot ask for several choices at once",
            data={"requiredCapabilities": {"elicitation": {"form": {}}}},
        )
    return {**params, "requestedSchema": elicitation.to_legacy_form_schema(schema)}


def _trim_sampling(revision: Revision, params: dict[str, Any]) -> dict[str, Any]:
    """Split messages of several blocks where a revision has one block per message.

    Revisions with several have every type of block that ``input_requests.sample`` accepts.
    """
    if revision.has(Feature.SAMPLING_TOOLS):
        return params
    messages = []
    for message in params["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) else [content]
        for block in blocks:
            if block["type"] not in revision.sampling_blocks:
                raise MissingClientCapability(
                    f"MCP {revision.version} cannot show a model {block['type']}",
                    data={"requiredCapabilities": {"sampling": {}}},
                )
            trimmed = trim_block(revision, block)
            messages.append({"role": message["role"], "content": trimmed})
    return {**params, "messages": messages}


INPUT_REQUEST_TRIMS: Mapping[str, Trim] = {
    "elicitation/create": _trim_form,
    "sampling/createMessage": _trim_sampling,
}
"""How the parameters of a request to the client are trimmed, by its method."""

RESULT_TRIMS: Mapping[str, Trim] = {
    "tools/call": _trim_tool_result,
    "prompts/get": _trim_prompt_result,
    "resources/read": _trim_read_result,
}
"""How results are trimmed, by the method of the request."""
