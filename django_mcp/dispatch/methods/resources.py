"""resources/list, resources/templates/list and resources/read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.components import results
from django_mcp.components.base import CacheHint, InvalidArguments
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.dispatch import invocation, result_size, visibility
from django_mcp.protocol.errors import InternalError, McpError, ResourceNotFound
from django_mcp.protocol.limits import MAX_URI
from django_mcp.server import failures

if TYPE_CHECKING:
    from django_mcp.dispatch.invocation import Answer
    from django_mcp.frame.frame import Frame

NOT_CACHEABLE = CacheHint(ttl_ms=0).to_protocol()

Readable = ResourceComponent | TemplateComponent


async def read(frame: Frame) -> Answer:
    """Read the resource with a URI, else the first matching template that finds one."""
    uri = invocation.string_param(frame.message.params, "uri", MAX_URI)
    missing = ResourceNotFound.at(uri)
    async for component, variables in _candidates(frame, uri):
        try:
            return await _read(frame, component, uri, variables)
        except ResourceNotFound as error:
            if error.names_value:
                missing = error
    raise missing


async def _candidates(frame: Frame, uri: str) -> AsyncIterator[tuple[Readable, dict[str, str]]]:
    """Yield the components that match the URI, the most specific first."""
    resource = await visibility.find(frame, ResourceComponent.kind, uri)
    if isinstance(resource, ResourceComponent):
        yield resource, {}
    async for template in visibility.usable_templates(frame, uri):
        yield template, template.match(uri) or {}


async def _read(frame: Frame, component: Readable, uri: str, variables: dict[str, str]) -> Answer:
    try:
        validated = component.validate_input({"uri": uri, **variables})
    except InvalidArguments as error:
        raise ResourceNotFound.at(uri) from error
    try:
        read = partial(_result, component, uri)
        handler = invocation.handler_of(component, frame.server.handle_resource_read)
        argument = uri if component.invoke is None else validated
        answer = await invocation.run(handler, frame, argument, read=read)
    except McpError:
        raise
    except Exception as error:
        failures.report_unexpected(frame, error, "Reading through %s failed", component.name)
        details = failures.debug_details(frame, error)
        raise InternalError(f"The resource could not be read{details}") from error
    if isinstance(answer[0], ResourceNotFound):
        raise answer[0]
    return answer


def _result(component: Readable, uri: str, frame: Frame, value: Any) -> dict[str, Any]:
    result = results.read_result(component, uri, value)
    if _is_other_version(component, uri):
        # While workers are replaced, an old one is asked for the page of a new one.
        result |= NOT_CACHEABLE
    elif component.cache is not None:
        result |= component.cache.to_protocol()
    return result_size.checked(frame, component, result)


def _is_other_version(component: Readable, uri: str) -> bool:
    """Whether the URI has the hash of another page than that of this process."""
    if not isinstance(component, ResourceComponent) or component.view is None:
        return False
    return uri not in (component.uri, component.view.listed_uri)
