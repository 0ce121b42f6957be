"""What a revision of the specification is: a value, and how one is made from the one before.

Inside the package everything speaks the newest vocabulary. A revision trims on the way out
what its clients do not know. It knows only older revisions, and nobody but this family
writes a version down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from django_mcp.protocol import elicitation
from django_mcp.protocol.errors import Json, McpError, MissingClientCapability
from django_mcp.protocol.schema.compiler import is_object_root, to_object_root

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
"""The key under which every result names its server, where the revision has it."""


class Statefulness(Enum):
    """How a client says who it is: once in a handshake, or in the envelope of every request."""

    SESSION = auto()
    STATELESS = auto()


class Structured(Enum):
    """What a tool's structured content may be."""

    NOTHING = auto()
    OBJECT = auto()
    ANYTHING = auto()


class Feature(Enum):
    """A rule of conversation which some revisions have and others lack."""

    # Members are looked up in sets by every request, and an Enum's own hash is a function.
    __hash__ = object.__hash__

    BATCHES = auto()
    """Several messages in one JSON array."""
    VERSION_HEADER = auto()
    """MCP-Protocol-Version on every HTTP request after the first."""
    PRIMING_EVENTS = auto()
    """A stream opens with an event id to resume from, and may be closed early to be polled."""
    IDLESS_ERRORS = auto()
    """An error response may leave out an id that could not be read."""
    COMPLETION_CONTEXT = auto()
    """Completion is told the arguments that were already chosen."""
    UNDECLARED_COMPLETION = auto()
    """completion/complete may be called although no capability names it."""
    RESULT_TYPES = auto()
    """Every result says of which type it is."""
    MIRRORED_HEADERS = auto()
    """HTTP headers repeat parts of the body."""
    INPUT_ROUNDS = auto()
    """The server asks by an answer, and the client calls again with what it was asked for."""
    LISTEN_STREAMS = auto()
    """Changes are announced on the stream of a subscriptions/listen request."""
    DISCONNECT_CANCELS = auto()
    """Closing the HTTP response stream cancels the request."""
    URL_ELICITATION = auto()
    """The user may be sent to a page."""
    RICH_ELICITATION = auto()
    """Titled and multiple choices, and defaults of every type."""
    SAMPLING_TOOLS = auto()
    """Sampling messages may hold several blocks, tool uses and tool results."""
    ARGUMENT_ERRORS_AS_RESULTS = auto()
    """Arguments that do not fit are told to the model, in a result."""


Trim = Callable[["Revision", dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One published revision of MCP, as a server needs to know it."""

    version: str
    opening: Statefulness
    requests: frozenset[str]
    """Methods a client may call."""
    notifications: frozenset[str]
    """Notifications a client may send."""
    announcements: frozenset[str]
    """Notifications the server may send."""
    questions: frozenset[str]
    """Requests the server may make of the client, by whichever way the revision has."""
    capabilities: Mapping[str, frozenset[str]]
    """Server capabilities, each with the flags it may carry."""
    fields: Mapping[str, frozenset[str]]
    """The members of each kind of object that travels to the client."""
    blocks: frozenset[str]
    """Types of content."""
    structured: Structured
    cacheable: frozenset[str]
    """Methods whose results say how long they may be kept."""
    error_codes: Mapping[str, int]
    http_statuses: Mapping[str, int]
    """The HTTP status of an error by its reason; every other is 200."""
    features: frozenset[Feature]
    reserved_codes: frozenset[int] = frozenset()
    """Codes which mean one certain thing, so that a handler cannot give them to its own errors."""
    deprecated: frozenset[str] = frozenset()
    """Questions and announcements which still work, and which new code should not use."""
    input_request_methods: frozenset[str] = frozenset()
    """Methods that may be answered with what is still needed from the client."""

    def revise(
        self,
        version: str,
        *,
        adds: Mapping[str, Any] | None = None,
        drops: Mapping[str, Any] | None = None,
        **changed: Any,
    ) -> Revision:
        """The next revision: this one with ``adds``, without ``drops``, and with ``changed``.

        ``adds`` and ``drops`` name fields of this class; a field which maps names to sets is
        given a mapping, a field which maps names to numbers its new entries.
        """
        values = {name: _add(getattr(self, name), more) for name, more in (adds or {}).items()}
        for name, less in (drops or {}).items():
            values[name] = _drop(values.get(name, getattr(self, name)), less)
        return replace(self, version=version, **values, **changed)

    def has(self, feature: Feature) -> bool:
        """Whether this revision knows ``feature``."""
        return feature in self.features

    def pick(self, kind: str, value: Json) -> dict[str, Any]:
        """The members of ``value`` which an object of ``kind`` has in this revision."""
        known = self.fields[kind]
        return {name: member for name, member in value.items() if name in known}

    def describe(self, kind: str, descriptor: Json) -> dict[str, Any]:
        """A descriptor, as listed to clients of this revision."""
        described = self.pick(kind, descriptor)
        if "annotations" in described and kind != "tool":
            described["annotations"] = self.pick("annotations", described["annotations"])
        if "outputSchema" in described and self.structured is Structured.OBJECT:
            wrapped = to_object_root(described.pop("outputSchema"))
            if wrapped is not None:
                described["outputSchema"] = wrapped
        return described

    def structure(self, value: Any, schema: Json | None) -> Any:
        """Structured content as this revision has it: where it must be an object, under one key.

        A schema decides, where there is one, since it is listed wrapped in the same way.
        """
        if self.structured is not Structured.OBJECT:
            return value
        fits = isinstance(value, dict) if schema is None else is_object_root(schema)
        return value if fits else {"result": value}

    def encoded(self, json: bytes, schema: Json | None) -> bytes:
        """``structure`` for a value which is JSON already."""
        if self.structured is not Structured.OBJECT:
            return json
        fits = json[:1] == b"{" if schema is None else is_object_root(schema)
        return json if fits else b'{"result":%b}' % json

    def describe_capabilities(self, capabilities: Json) -> dict[str, Any]:
        """The server's capabilities, as this revision can say them."""
        return {
            name: {flag: on for flag, on in flags.items() if _known_flag(known, flag)}
            for name, flags in capabilities.items()
            if (known := self.capabilities.get(name)) is not None
        }

    def finish(
        self, method: str, result: dict[str, Any], *, server_info: Json, cache: Json
    ) -> dict[str, Any]:
        """The result of ``method`` as it travels: trimmed, typed, and with hints for caches."""
        trim = TRIMS.get(method)
        if trim is not None:
            result = trim(self, result)
        if Feature.RESULT_TYPES not in self.features:
            return result
        if result.setdefault("resultType", "complete") == "complete" and method in self.cacheable:
            result = {**cache, **result}
        meta = result.get("_meta")
        result["_meta"] = (
            {SERVER_INFO: server_info}
            if meta is None
            else {
                SERVER_INFO: server_info,
                **meta,
            }
        )
        return result

    def question(self, method: str, params: Json) -> dict[str, Any]:
        """The parameters of a question to the client, as this revision has them.

        Raises ClientCapabilityMissing for what none of its clients can be asked.
        """
        asked = self.pick(method, params) if method in self.fields else dict(params)
        trim = QUESTION_TRIMS.get(method)
        return asked if trim is None else trim(self, asked)

    def error_code(self, error: McpError) -> int:
        """The number of ``error``: its own, or the one this revision has for its reason."""
        own = error.code
        if own is None or own in self.reserved_codes:
            return self.error_codes[error.reason]
        return own

    def error(self, error: McpError) -> dict[str, Any]:
        """The JSON-RPC error object for ``error``."""
        described = {"code": self.error_code(error), "message": error.message}
        return described if error.data is None else {**described, "data": error.data}

    def http_status(self, error: McpError) -> int:
        """The HTTP status of a response that is ``error``, as long as nothing was sent."""
        return self.http_statuses.get(error.reason, 200)


def _add(present: Any, more: Any) -> Any:
    if isinstance(present, frozenset):
        return present | frozenset(more)
    merged = dict(present)
    for name, value in more.items():
        if isinstance(value, int):
            merged[name] = value
        else:
            merged[name] = merged.get(name, frozenset()) | frozenset(value)
    return merged


def _drop(present: Any, less: Any) -> Any:
    if isinstance(present, frozenset):
        return present - frozenset(less)
    if not isinstance(less, Mapping):
        return {name: value for name, value in present.items() if name not in less}
    return {name: value - frozenset(less.get(name, ())) for name, value in present.items()}


def _known_flag(known: frozenset[str], flag: str) -> bool:
    """Whether a capability may carry ``flag``; ``*`` stands for free keys, as in experimental."""
    return flag in known or "*" in known


def trim_block(revision: Revision, block: dict[str, Any]) -> dict[str, Any]:
    """A content block in the words of ``revision``: rewritten where the type is not among them."""
    kind = block["type"]
    if kind not in revision.blocks:
        return REWRITES[kind](block)
    trimmed = revision.pick(f"{kind}_content", block)
    if "annotations" in trimmed:
        trimmed["annotations"] = revision.pick("annotations", trimmed["annotations"])
    if kind == "resource":
        trimmed["resource"] = revision.pick("contents", trimmed["resource"])
    return trimmed


def _audio_as_resource(block: dict[str, Any]) -> dict[str, Any]:
    """Audio for clients that have no such block: the same bytes, as an embedded resource."""
    contents = {"uri": "urn:mcp:audio", "mimeType": block["mimeType"], "blob": block["data"]}
    return {"type": "resource", "resource": contents}


def _link_as_text(block: dict[str, Any]) -> dict[str, Any]:
    """A resource link for clients that have no such block: its name and its address."""
    description = f"\n{block['description']}" if block.get("description") else ""
    return {"type": "text", "text": f"{block['name']}: {block['uri']}{description}"}


REWRITES: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "audio": _audio_as_resource,
    "resource_link": _link_as_text,
}


def _trim_tool_result(revision: Revision, result: dict[str, Any]) -> dict[str, Any]:
    if revision.structured is Structured.ANYTHING:
        return result
    if "content" not in result:
        return result
    trimmed = revision.pick("tools/call", result)
    trimmed["content"] = [trim_block(revision, block) for block in result["content"]]
    return trimmed


def _trim_prompt_result(revision: Revision, result: dict[str, Any]) -> dict[str, Any]:
    if revision.structured is Structured.ANYTHING:
        return result
    messages = [
        {**message, "content": trim_block(revision, message["content"])}
        for message in result.get("messages", ())
    ]
    return {**result, "messages": messages}


def _trim_read_result(revision: Revision, result: dict[str, Any]) -> dict[str, Any]:
    if revision.structured is Structured.ANYTHING:
        return result
    contents = [revision.pick("contents", item) for item in result.get("contents", ())]
    # The hints for caches, which a resource may give of its own, are unknown here.
    kept = {name: member for name, member in result.items() if name == "_meta"}
    return {**kept, "contents": contents}


def _trim_form(revision: Revision, params: dict[str, Any]) -> dict[str, Any]:
    if "requestedSchema" not in params or revision.has(Feature.RICH_ELICITATION):
        return params
    if elicitation.has_several_choices(params["requestedSchema"]):
        raise MissingClientCapability(
            f"MCP {revision.version} cannot ask for several choices at once",
            data={"requiredCapabilities": {"elicitation": {"form": {}}}},
        )
    return {
        **params,
        "requestedSchema": elicitation.to_legacy_form_schema(params["requestedSchema"]),
    }


def _trim_sampling(revision: Revision, params: dict[str, Any]) -> dict[str, Any]:
    """One block to a message, where a revision has no more: longer messages become several."""
    if revision.has(Feature.SAMPLING_TOOLS):
        return params
    messages = [
        {"role": message["role"], "content": _trim_sampled(revision, block)}
        for message in params["messages"]
        for block in _as_list(message["content"])
    ]
    return {**params, "messages": messages}


def _trim_sampled(revision: Revision, block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] not in revision.blocks:
        raise MissingClientCapability(
            f"MCP {revision.version} cannot show a model {block['type']}",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return trim_block(revision, block)


def _as_list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


QUESTION_TRIMS: Mapping[str, Trim] = {
    "elicitation/create": _trim_form,
    "sampling/createMessage": _trim_sampling,
}

TRIMS: Mapping[str, Trim] = {
    "tools/call": _trim_tool_result,
    "prompts/get": _trim_prompt_result,
    "resources/read": _trim_read_result,
}
