"""resources/list, resources/templates/list and resources/read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from django_mcp.core.components import results
from django_mcp.core.components.base import CacheHint
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.core.dispatch import invocation, plan, result_size, visibility
from django_mcp.core.dispatch.invocation import Invocation
from django_mcp.core.dispatch.plan import Plan
from django_mcp.core.protocol.errors import InternalError, McpError, ResourceNotFound
from django_mcp.core.protocol.limits import MAX_URI
from django_mcp.core.server import failures
from django_mcp.core.server.extensions import INSTALLED

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server

RESOURCE = ResourceComponent.kind
NOT_CACHEABLE = CacheHint(ttl_ms=0).to_protocol()

Readable = ResourceComponent | TemplateComponent


async def read(frame: Frame) -> Answer:
    """Read the resource with a URI, else the first matching template that finds one."""
    uri = invocation.string_param(frame.message.params, "uri", MAX_URI)
    missing: ResourceNotFound | None = None
    own = plan.kept(frame, RESOURCE, uri) or await plan.find(frame, RESOURCE, uri, make_plan)
    if own is not None:
        try:
            return await _read(frame, own, {"uri": uri})
        except ResourceNotFound as error:
            missing = error if error.names_value else None
    for match in await visibility.matching_templates(frame, uri):
        if not match.access.is_usable():
            continue
        template_plan = plan.kept_or_made(frame, match.template, make_plan)
        try:
            return await _read(frame, template_plan, {"uri": uri, **match.variables})
        except ResourceNotFound as error:
            missing = error if error.names_value else missing
    raise missing or ResourceNotFound.at(uri)


async def _read(frame: Frame, own: Plan, variables: dict[str, str]) -> Answer:
    """Read by a plan; raises ResourceNotFound also if the handler returned it."""
    frame.exchange.component_read = own.component.key
    answer = await own.call(frame, variables)
    if isinstance(answer[0], ResourceNotFound):
        raise answer[0]
    return answer


def make_plan(server: Server, component: Readable, revision: Revision) -> Plan:
    """Decide which steps the reads of a resource or template take; see ``dispatch.plan``."""
    handler = invocation.handler_of(component, server.handle_resource_read)
    has_handler = component.invoke is not None
    read_value = plan.AFTER_RESULT.after(partial(_result, component), component, revision)
    failed = partial(_failed, component)
    return Plan(
        component=component,
        unknown=ResourceNotFound.at,
        before_arguments=plan.BEFORE_ARGUMENTS.of(component, revision),
        validate=component.validate_input if has_handler else partial(_uri_of, component),
        before_handler=INSTALLED.steps("before_handler", component, revision),
        invocation=Invocation.of(server, handler, read=read_value, failed=failed),
    )


def _uri_of(component: Readable, variables: dict[str, str]) -> str:
    """The argument of the hook, which is there for valid variables only."""
    component.validate_input(variables)
    return variables["uri"]


def _failed(component: Readable, frame: Frame, error: Exception) -> NoReturn:
    if isinstance(error, McpError):
        raise error
    failures.report_unexpected(frame, error, "Reading through %s failed", component.name)
    details = failures.debug_details(frame, error)
    raise InternalError(f"The resource could not be read{details}") from error


def _result(component: Readable, frame: Frame, value: Any) -> dict[str, Any]:
    uri = frame.message.params["uri"]
    result = results.read_result(component, uri, value)
    if _is_other_version(component, uri):
        # While workers are replaced, an old one is asked for the version of a new one.
        result |= NOT_CACHEABLE
    elif component.cache is not None:
        # The response may have its own.
        result = {**component.cache.to_protocol(), **result}
    elif not component.is_public:
        result = {**visibility.private_scope(frame), **result}
    return result_size.checked(frame, component, result)


def _is_other_version(component: Readable, uri: str) -> bool:
    """Whether the URI has another version than that of this process."""
    if not isinstance(component, ResourceComponent) or component.versions is None:
        return False
    return uri not in (component.uri, component.versions.listed_uri)
