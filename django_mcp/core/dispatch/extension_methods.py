"""The methods of extensions: parameters are validated, and the function runs as handlers do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from django_mcp.core.components import schemas, serializers
from django_mcp.core.components.invalid_arguments import InvalidArguments, LargeArguments
from django_mcp.core.components.signature import is_async
from django_mcp.core.dispatch import invocation
from django_mcp.core.dispatch.invocation import HookHandler, Invocation
from django_mcp.core.dispatch.methods.subscriptions import check_stream
from django_mcp.core.protocol import preencoded, subscriptions
from django_mcp.core.protocol.errors import InternalError, InvalidParams, McpError, MethodNotFound
from django_mcp.core.protocol.limits import cut
from django_mcp.core.protocol.preencoded import PreEncodedList
from django_mcp.core.server import extensions, failures

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.extensions import Extension, Method

    Run = Callable[[Frame], Awaitable[Answer]]

OF_REQUESTS = frozenset({"_meta", "inputResponses", "requestState"})
"""Members of parameters that every method has."""


def find(name: str) -> Run | None:
    """The function of a method of an installed extension, if one has it."""
    owner = extensions.INSTALLED.method(name)
    return None if owner is None else _function(*owner)


@lru_cache(maxsize=256)
def _function(extension: Extension, method: Method) -> Run:
    validate = _validator(method)

    def failed(frame: Frame, error: Exception) -> NoReturn:
        if isinstance(error, McpError):
            raise error
        failures.report_unexpected(frame, error, "The method %s failed", method.name)
        details = failures.debug_details(frame, error)
        raise InternalError(f"{method.name} failed{details}") from error

    async def run(frame: Frame) -> Answer:
        server = frame.server
        if not extension.is_available(server, frame.revision):
            missing = extension.of_capability
            reason = "" if missing is None else f", since there are no {missing}"
            raise MethodNotFound(f"Method not found: {cut(method.name)}{reason}")
        if method.streams:
            check_stream(frame)
        if method.needs_declaration:
            extension.require(frame)
        sent = frame.message.params
        arguments = await validate({key: sent[key] for key in sent.keys() - OF_REQUESTS})
        if not method.runs_as_handler:
            return await method.call(*arguments, frame), frame
        handler = HookHandler(method.call, is_async(method.call), method.requests_input)
        read = _unread if method.streams else _read
        invocation_of = Invocation.of(server, handler, read=read, failed=failed)
        result, after = await invocation_of.run(frame, *arguments)
        if not method.streams or isinstance(result, McpError):
            return result, after
        del sent, arguments  # They may be large, and the stream may be open for days.
        await frame.exchange.listen(frame, result)
        return {"_meta": subscriptions.meta(frame.request_id)}, after

    return run


def _validator(method: Method) -> Callable[[dict[str, Any]], Awaitable[tuple[Any, ...]]]:
    """Return a function that makes the arguments of a method; it raises InvalidParams."""
    schema = None
    if method.params is not None:
        schema = schemas.input_of(method.params, f"the method {method.name}", strict_numbers=True)

    async def validate(params: dict[str, Any]) -> tuple[Any, ...]:
        if schema is None:
            return ()
        try:
            try:
                return (schema.validate(params),)
            except LargeArguments:
                return (await invocation.validate_large(schema, params),)
        except InvalidArguments as error:
            raise InvalidParams(f"Invalid params: {error}") from error

    return validate


def _unread(frame: Frame, value: Any) -> invocation.Result:
    return value


def _read(frame: Frame, value: Any) -> invocation.Result:
    if type(value) is PreEncodedList:
        return value
    if type(value) is dict and preencoded.has_encoded(value):
        return dict(value)  # A list of components, with a next page.
    result = serializers.jsonable({} if value is None else value)
    if not isinstance(result, Mapping):
        raise TypeError(f"{frame.message.method} returned {value!r}: return a dict or a model")
    return dict(result)
