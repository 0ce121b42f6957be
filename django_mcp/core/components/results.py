"""Turning the return value of a handler into a result, in the format of the newest revision.

The Frame is already split off. Lazy queries are evaluated here, so the value of a synchronous
handler is serialized on the handler's own thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.core.components import serializers
from django_mcp.core.components.base import InvalidOutput, UnserializableResult
from django_mcp.core.components.responses import (
    MAX_COMPLETIONS,
    CompletionResponse,
    ContentResponse,
    PromptResponse,
    ResourceResponse,
    Response,
    ToolResponse,
)
from django_mcp.core.components.serializers import CONTAINERS, SCALARS
from django_mcp.core.protocol.content import CONTENT, Content, EmbeddedResource, Message, block
from django_mcp.core.protocol.errors import ToolError
from django_mcp.core.protocol.texts import is_text

if TYPE_CHECKING:
    from django_mcp.core.components.base import Component
    from django_mcp.core.components.prompt import PromptComponent
    from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
    from django_mcp.core.components.tool import ToolComponent

AnyResponse = TypeVar("AnyResponse", bound=Response)

BYTES = (bytes, bytearray, memoryview)
UNSTRUCTURED = (str, int, float, *BYTES)
OPENING = (b"{", b"[")
QUOTE = b'"'
EMPTY_LIST = b"[]"


def tool_result(tool: ToolComponent, value: Any) -> dict[str, Any]:
    """The result of a call; raises InvalidOutput and UnserializableResult."""
    if type(value) in SCALARS:
        return of_value(tool, value)
    if tool.output is None:
        value = serializers.converted(value)
    if isinstance(value, ToolError):
        return {"content": [{"type": "text", "text": str(value)}], "isError": True}
    if isinstance(value, Response):
        return _checked(tool, _of_kind(value, ToolResponse, tool).to_protocol())
    if (blocks := _blocks(value)) is not None:
        return _checked(tool, {"content": [each.to_protocol() for each in blocks]})
    result = of_value(tool, value)
    if "structuredContent" in result and EMPTY_LIST.decode() in result["content"][0]["text"]:
        shown = serializers.deeply_converted(value, rows=True)
        return result if shown is value else of_value(tool, shown)
    return result


def of_value(tool: ToolComponent, value: Any) -> dict[str, Any]:
    """The result of a value which is neither a response nor content, such as a scalar."""
    if tool.output is not None:
        return _structured(tool.output.encode(value))
    return _without_schema(value)


def encode_structure(tool: ToolComponent, value: Any) -> bytes | None:
    """The JSON of structured content, or None: use ``tool_result``, which raises the same."""
    if type(value) in SCALARS:
        return None if tool.output is None else tool.output.encode(value)
    if tool.output is None and type(value) not in CONTAINERS:
        value = serializers.converted(value)
    if isinstance(value, (ToolError, Response)) or _blocks(value) is not None:
        return None
    if tool.output is not None:
        json = tool.output.encode(value)
    elif value is None or isinstance(value, UNSTRUCTURED):
        return None
    else:
        json = serializers.encoded(value)
        if json[:1] not in OPENING:
            return None
    # pydantic writes a list of a class of its own, such as the errors of a form, as an empty one.
    # A text that looks like an empty list counts as well.
    may_have_empty_list = serializers.contains(json, EMPTY_LIST)
    if may_have_empty_list and serializers.deeply_converted(value, rows=True) is not value:
        return None
    return json


def read_result(
    component: ResourceComponent | TemplateComponent, uri: str, value: Any
) -> dict[str, Any]:
    """The contents of the resource at ``uri``; raises UnserializableResult."""
    if hasattr(type(value), "read"):
        value = Response.file(value)
    value = serializers.converted(value)
    if isinstance(value, Response):
        response = _of_kind(value, ResourceResponse, component)
    else:
        response = _contents(value, component.mime_type)
    return response.to_protocol(uri, component.mime_type)


ROLES = ("user", "assistant")


def prompt_result(prompt: PromptComponent, value: Any) -> dict[str, Any]:
    """The messages of a prompt, with its description; raises UnserializableResult."""
    value = serializers.converted(value)
    if isinstance(value, Response):
        result = _of_kind(value, PromptResponse, prompt).to_protocol()
    else:
        result = PromptResponse().add(*map(_message, _messages(value))).to_protocol()
    description = prompt.listed_description
    if description and "description" not in result:
        return {"description": description, **result}
    return result


def _messages(value: Any) -> Iterable[Any]:
    """The return value of a prompt: one message, a list of them, or none."""
    if not isinstance(value, list | tuple):
        return () if value is None else (value,)
    if isinstance(value, tuple) and len(value) == 2 and value[0] in ROLES:
        raise UnserializableResult(
            f"A prompt returned a tuple that begins with {value[0]!r}, which would be two messages "
            f'of the user: write {{"role": {value[0]!r}, "content": …}}'
        )
    return value


def completion_result(value: Any) -> dict[str, Any]:
    """The values for an argument: the first hundred, and the number of all."""
    if isinstance(value, CompletionResponse):
        return value.to_protocol()
    if isinstance(value, Response) or not isinstance(value, Iterable | None):
        raise UnserializableResult(
            f"A completion returned {_a(value)}: return a list of strings or Response.completion(…)"
        )
    values = [value] if isinstance(value, str) else list(value or ())
    response = Response.completion(values)
    return response.with_pagination(len(values), len(values) > MAX_COMPLETIONS).to_protocol()


def _without_schema(value: Any) -> dict[str, Any]:
    if value is None:
        return {"content": []}
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": str(value)}]}
    if isinstance(value, BYTES):
        raise UnserializableResult(
            "A tool returned bytes, which have no type: return Response.file(…, mime_type=…), or "
            "Response.tool().image(…), .audio(…) or .embedded_resource(…)"
        )
    json = serializers.encoded(value)
    if json[:1] in OPENING:
        return _structured(json)
    # A number is no structured content: clients of older revisions accept objects only.
    text = serializers.decoded(json) if json[:1] == QUOTE else json.decode()
    return {"content": [{"type": "text", "text": text}]}


def _structured(json: bytes) -> dict[str, Any]:
    """Structured content, and the same as text for older clients (TOOL-08)."""
    text = {"type": "text", "text": json.decode()}
    return {"content": [text], "structuredContent": serializers.decoded(json)}


def _checked(tool: ToolComponent, result: dict[str, Any]) -> dict[str, Any]:
    if tool.output is None or result.get("isError"):
        return result
    if "structuredContent" not in result:
        raise InvalidOutput("an output schema is declared, but there is no structured content")
    tool.output.check(result["structuredContent"])
    return result


def _blocks(value: Any) -> list[Content] | None:
    """``value`` as content blocks: one, or a list with strings among them; else None."""
    if isinstance(value, CONTENT):
        return [value]
    if not isinstance(value, list | tuple):
        return None
    # Of each type once: a result may have thousands of rows.
    kinds = {*map(type, value)}
    if not any(issubclass(kind, CONTENT) for kind in kinds):
        return None
    for item in value:
        if not isinstance(item, (str, *CONTENT)):
            raise UnserializableResult(f"{_a(item)} is among content blocks: make it a TextContent")
    return [block(item) for item in value]


def _contents(value: Any, mime_type: str | None) -> ResourceResponse:
    if value is None or is_text(value):
        return ResourceResponse().text(value or "")
    if isinstance(value, BYTES):
        return ResourceResponse().blob(bytes(value))
    items = list(value) if isinstance(value, list | tuple) else [value]
    if items and all(isinstance(each, EmbeddedResource) for each in items):
        return ResourceResponse(others=tuple(items))
    if any(isinstance(each, (*CONTENT, Message)) for each in items):
        raise UnserializableResult(
            "A resource returned content blocks: return a string, bytes, a value for JSON, "
            "EmbeddedResources or Response.resource()"
        )
    return ResourceResponse().json(value, mime_type=mime_type or "application/json")


def _message(value: Any) -> Message:
    if isinstance(value, Message):
        return value
    if is_text(value) or isinstance(value, CONTENT):
        return Message("user", value)
    if isinstance(value, Mapping):
        try:
            return Message(value["role"], value["content"])
        except (KeyError, ValueError) as error:
            raise UnserializableResult(
                f"A prompt returned a mapping that is no message ({error}): "
                'write {"role": "user", "content": …}'
            ) from error
    raise UnserializableResult(
        f"A prompt returned {_a(value)}: return a string, content, Messages, or Response.prompt()"
    )


def _of_kind(value: Response, kind: type[AnyResponse], component: Component) -> AnyResponse:
    if isinstance(value, ContentResponse):
        value = value.as_response(kind)
    if not isinstance(value, kind):
        raise UnserializableResult(
            f"The {component.kind} {component.name} returned a {type(value).__name__}: "
            f"start with Response.{component.kind.removesuffix('_template')}()"
        )
    return value


def _a(value: Any) -> str:
    return f"a value of type {type(value).__qualname__}"
