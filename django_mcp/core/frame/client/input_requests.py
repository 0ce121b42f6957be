"""Input requests: a form, a page to visit, a message from the client's model, the client's roots.

An InputRequest is a value: the request, the capability it needs, and a reader of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from django_mcp.core.components import schemas
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.ports import Port
from django_mcp.core.protocol import elicitation
from django_mcp.core.protocol.errors import ClientError, Json
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.protocol.texts import is_text, resolved

FORM: Json = {"elicitation": {"form": {}}}
URL: Json = {"elicitation": {"url": {}}}
SAMPLING: Json = {"sampling": {}}
SAMPLING_TOOLS: Json = {"sampling": {"tools": {}}}
ROOTS: Json = {"roots": {}}

RESPONSE_TIMEOUT = 5 * 60.0
"""Seconds that a handler without a ``timeout`` waits for a response: a user may have to read the
request. Revisions without sessions do not wait."""

Content = TypeVar("Content")
Answer = TypeVar("Answer", covariant=True)


class InvalidClientResponse(ClientError):
    """The client's response is invalid; the input is requested again."""

    @property
    def description(self) -> str:
        return f"The client's response is invalid: {self.message}"


class InvalidContent(InvalidClientResponse):
    """The values of a form are invalid: the user reads why when the form is requested again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest(Generic[Answer]):
    """One input request: ``method`` and ``params`` as the newest revision has them."""

    method: str
    params: Mapping[str, Any]
    capability: Json
    read: Callable[[Json], Answer]
    """Converts the client's result; raises InvalidClientResponse for an invalid one."""
    may_block: bool = False
    """Whether ``read`` may query the database, so that no event loop runs it."""


InputRequests = Mapping[str, InputRequest[Any]]
Responses = Mapping[str, Json]
"""The results that the client sent, by the names of the input requests."""


@dataclass(frozen=True, slots=True)
class ElicitResult(Generic[Content]):
    """A user's response to a form or a page.

    ``content`` has the values of an accepted form: an instance of the model, or a mapping.
    Otherwise it is None.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Content

    @property
    def accepted(self) -> bool:
        """Whether the user accepted."""
        return self.action == "accept"


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """A message from the client's model."""

    role: str
    content: Any
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The text of the message; blocks of other types are left out."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "".join(block.get("text", "") for block in blocks if isinstance(block, dict))


@dataclass(frozen=True, slots=True)
class Root:
    """A directory or file which the client opens to servers."""

    uri: str
    name: str | None = None


class Reading:
    """The answers to input requests, read from the responses of the client.

    What has no valid response is missing, and is requested ``ATTEMPTS`` times.
    """

    def __init__(self, requests: InputRequests) -> None:
        self._requests = requests
        self.missing = dict(requests)
        self.answers: dict[str, Any] = {}
        self._attempts = 0

    def may_block(self, responses: Responses) -> bool:
        """Whether ``read`` may query the database."""
        return any(self.missing[name].may_block for name in responses)

    def read(self, responses: Responses) -> None:
        """Read responses that came with the call: an invalid one is missing."""
        for name, response in responses.items():
            try:
                self._read(name, response)
            except InvalidContent as error:
                self.missing[name] = _with_problems(self._requests[name], error.message)
            except InvalidClientResponse:
                pass

    def read_requested(self, responses: Responses) -> None:
        """Read responses to what was missing; raises InvalidClientResponse the last time."""
        self._attempts += 1
        if self._attempts < ATTEMPTS:
            self.read(responses)
            return
        for name, response in responses.items():
            self._read(name, response)

    def _read(self, name: str, response: Json) -> None:
        self.answers[name] = self.missing[name].read(response)
        del self.missing[name]


def _with_problems(request: InputRequest[Any], problems: str) -> InputRequest[Any]:
    """Return the request of a form with the problems of the former values in its message."""
    message = f"{request.params['message']}\n\n{problems}"
    return replace(request, params={**request.params, "message": message})


ATTEMPTS = 3
"""How often input is requested while the responses are invalid."""


def form(message: str, schema: type | Json) -> InputRequest[ElicitResult[Any]]:
    """Request a form from the user: a flat pydantic model, JSON Schema or Django form.

    Never request passwords, keys, tokens or payment data: use ``url_elicitation``. A Django form
    may query its choices here: call this in a thread, then.
    """
    read_django_form = DJANGO_FORM_READER.get()(schema)
    fields = read_django_form() if read_django_form else schemas.input_of(schema, "a form")
    # A form is flat, so that a large one takes little time as well.
    validate = fields.validate_large or fields.validate

    def read(result: Json) -> ElicitResult[Any]:
        action = _action(result)
        if action != "accept":
            return ElicitResult(action, None)
        content = result.get("content")
        if not isinstance(content, dict):
            raise InvalidClientResponse("an accepted form has content")
        try:
            return ElicitResult(action, validate(content))
        except InvalidArguments as error:
            raise InvalidContent(error.problems) from error

    try:
        requested = elicitation.to_form_schema(fields.schema)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    params = {"message": str(message), "requestedSchema": resolved(requested), "mode": "form"}
    return InputRequest(
        method="elicitation/create",
        params=params,
        capability=FORM,
        read=read,
        may_block=read_django_form is not None,
    )


def is_django_form(schema: Any) -> bool:
    """Whether ``form`` may query the database for a schema."""
    return DJANGO_FORM_READER.get()(schema) is not None


def _no_django_form(schema: Any) -> Callable[[], InputSchema] | None:
    return None


DJANGO_FORM_READER: Port[Callable[[Any], Callable[[], InputSchema] | None]] = Port(
    "reads Django forms", default=_no_django_form
)
"""Returns a function that makes the schema of a Django form, and None for anything else. The
function and the schema's validation may query the database."""


def url_elicitation(
    message: str, url: str, *, elicitation_id: str | None = None
) -> InputRequest[ElicitResult[None]]:
    """Request that the user visits a page, for data which must not pass through the client.

    ``elicitation_id`` is sent where the revision has ids; by default it is random.
    """
    try:
        params = elicitation.url_elicitation_params(str(url), str(message), elicitation_id)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return InputRequest(
        method="elicitation/create",
        params=params,
        capability=URL,
        read=_result_without_content,
    )


def _result_without_content(result: Json) -> ElicitResult[None]:
    return ElicitResult(_action(result), None)


def _action(result: Json) -> Literal["accept", "decline", "cancel"]:
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise InvalidClientResponse("action must be accept, decline or cancel")
    return action  # type: ignore[no-any-return]


def sample(
    messages: str | Sequence[Json], *, max_tokens: int, **options: Any
) -> InputRequest[SamplingResult]:
    """Request a message from the client's model (sampling).

    ``messages`` is a user's text, or messages of the specification. Raises ValueError for anything
    else, and for an unknown option.
    Options: system_prompt, temperature, stop_sequences, model_preferences, include_context,
    metadata, tools, tool_choice.
    """
    if isinstance(messages, str) or is_text(messages):
        messages = [{"role": "user", "content": {"type": "text", "text": str(messages)}}]
    if unknown := options.keys() - SAMPLING_OPTIONS.keys():
        possible = ", ".join(SAMPLING_OPTIONS)
        raise ValueError(f"There is no option {min(unknown)!r} of sampling: there are {possible}")
    params = {SAMPLING_OPTIONS[name]: value for name, value in options.items()}
    uses_tools = _uses_tools(messages) or bool(params.keys() & {"tools", "toolChoice"})
    return InputRequest(
        method="sampling/createMessage",
        params=resolved({"messages": list(messages), "maxTokens": max_tokens, **params}),
        capability=SAMPLING_TOOLS if uses_tools else SAMPLING,
        read=_sampling_result,
    )


def _uses_tools(messages: Sequence[Json]) -> bool:
    """Whether the messages use tools (SAMP-07, SAMP-08).

    Raises ValueError unless each message that uses tools is followed by one with their results.
    """
    open_uses: set[Any] = set()
    uses_tools = False
    for message in messages:
        blocks = _blocks(message)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        is_mixed = bool(results) and len(results) != len(blocks)
        if is_mixed or {block.get("toolUseId") for block in results} != open_uses:
            raise ValueError(
                "A message that uses tools is followed by one with exactly their results"
            )
        open_uses = {block.get("id") for block in blocks if block.get("type") == "tool_use"}
        uses_tools = uses_tools or bool(open_uses)
    if open_uses:
        raise ValueError("The tool uses of the last message are not answered")
    return uses_tools


def _blocks(message: Json) -> Sequence[Json]:
    """The content of a message; ValueError if no revision has it in sampling (SAMP-03)."""
    content = message.get("content") if isinstance(message, Mapping) else None
    blocks: list[Any] = content if isinstance(content, list) else [content]
    for block in blocks:
        if not isinstance(block, Mapping):
            raise ValueError(
                f"{message!r} is no message: write a text, or a list of messages such as "
                '{"role": "user", "content": {"type": "text", "text": "…"}}'
            )
        if block.get("type") not in NEWEST.sampling_blocks:
            types = ", ".join(sorted(NEWEST.sampling_blocks))
            raise ValueError(
                f"Content of type {block.get('type')!r} cannot be sent to a model: "
                f"convert it to one of {types}"
            )
    return blocks


SAMPLING_OPTIONS: Mapping[str, str] = {
    "system_prompt": "systemPrompt",
    "temperature": "temperature",
    "stop_sequences": "stopSequences",
    "model_preferences": "modelPreferences",
    "include_context": "includeContext",
    "metadata": "metadata",
    "tools": "tools",
    "tool_choice": "toolChoice",
}


def _sampling_result(result: Json) -> SamplingResult:
    content = result.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text", "") if isinstance(block, dict) else None for block in blocks]
    are_blocks = all(isinstance(text, str) for text in texts)
    if not are_blocks or not isinstance(result.get("role"), str):
        raise InvalidClientResponse("a sampled message has a role and content")
    return SamplingResult(
        result["role"], content, str(result.get("model", "")), result.get("stopReason")
    )


def roots() -> InputRequest[list[Root]]:
    """Request the client's roots: the directories and files which it opens to servers."""
    return InputRequest(method="roots/list", params={}, capability=ROOTS, read=_roots)


def _roots(result: Json) -> list[Root]:
    listed = result.get("roots")
    if not isinstance(listed, list):
        raise InvalidClientResponse("roots must be a list")
    for item in listed:
        if not isinstance(item, dict) or not str(item.get("uri", "")).startswith("file://"):
            raise InvalidClientResponse("every root has a file:// URI")
        if not isinstance(item.get("name", ""), str):
            raise InvalidClientResponse("the name of a root is a text")
    return [Root(item["uri"], item.get("name")) for item in listed]


def missing(request: InputRequest[Any], capabilities: Json) -> bool:
    """Whether the client lacks the capability that a request needs.

    A capability is declared by its presence, even if it is empty. An ``elicitation`` that names no
    mode has forms.
    """
    ((name, wanted_modes),) = request.capability.items()
    declared = capabilities.get(name)
    if not isinstance(declared, dict):
        return True
    if name == "elicitation" and "form" in wanted_modes and "url" not in declared:
        return False
    return any(mode not in declared for mode in wanted_modes)
