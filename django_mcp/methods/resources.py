"""resources/list, resources/templates/list and resources/read."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from django_mcp.components import results
from django_mcp.components.base import ArgumentsInvalid, Component
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.components.results import UnfitResult
from django_mcp.methods import listing, running
from django_mcp.protocol.errors import InternalError, McpError, ResourceNotFound

if TYPE_CHECKING:
    from django_mcp.frame import Frame
    from django_mcp.methods import Answer

logger = logging.getLogger("django_mcp")


async def list_(frame: Frame) -> Answer:
    """One page of the resources this caller may read."""
    return await listing.page(frame, ResourceComponent.kind, "resources")


async def list_templates(frame: Frame) -> Answer:
    """One page of the resource templates this caller may read through."""
    return await listing.page(frame, TemplateComponent.kind, "resourceTemplates")


async def read(frame: Frame) -> Answer:
    """Read the resource at a URI: a declared one first, else by the templates that match it.

    A template whose handler raises ResourceNotFound lets the next one try.
    """
    uri = running.string_param(frame, "uri")
    async for component, variables in _candidates(frame, uri):
        try:
            return await _read(frame, component, uri, variables)
        except ResourceNotFound:
            continue
    raise ResourceNotFound.at(uri)


async def _candidates(frame: Frame, uri: str) -> AsyncIterator[tuple[Component, dict[str, str]]]:
    """The components that may have the resource, the most specific first."""
    resource = await listing.find(frame, ResourceComponent.kind, uri)
    if resource is not None:
        yield resource, {}
    for template in matching(frame, uri):
        variables = template.match(uri)
        if variables is not None and await listing.visible(frame, template):
            yield template, variables


def matching(frame: Frame, uri: str) -> list[TemplateComponent]:
    """The templates that match ``uri``, the most specific first."""
    templates = listing.catalogue(frame, TemplateComponent.kind)
    found = [t for t in templates if isinstance(t, TemplateComponent) and t.match(uri) is not None]
    return sorted(found, key=lambda template: (template.specificity, template.name))


async def _read(
    frame: Frame, component: Component, uri: str, variables: dict[str, str]
) -> Answer:
    try:
        clean = component.validate_input({**variables, "uri": uri})
    except ArgumentsInvalid as error:
        raise ResourceNotFound.at(uri) from error
    try:
        value, after = await running.run(component, frame, clean)
    except McpError:
        raise
    except Exception as error:
        logger.error("Reading through %s failed", component.name, exc_info=error)
        raise InternalError("The resource could not be read") from error
    return _result(component, uri, value), after


def _result(component: Component, uri: str, value: Any) -> dict[str, Any] | McpError:
    if isinstance(value, ResourceNotFound):
        raise value
    if isinstance(value, McpError):
        return value
    try:
        result = results.read_result(component, uri, value)
    except UnfitResult as error:
        logger.error("What %s returned does not fit: %s", component.name, error)
        raise InternalError("The resource returned something unfit") from error
    return result if component.cache is None else {**result, **component.cache.to_protocol()}
