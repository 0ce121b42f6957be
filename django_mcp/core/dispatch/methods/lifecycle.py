"""initialize, ping, server/discover and logging/setLevel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.core.components.serializers import copied
from django_mcp.core.dispatch import visibility
from django_mcp.core.dispatch.invocation import call_hook, string_param
from django_mcp.core.frame.client.log_levels import LEVELS
from django_mcp.core.frame.session import Change
from django_mcp.core.protocol import initialize as initialize_params
from django_mcp.core.protocol.errors import InvalidParams
from django_mcp.core.protocol.revisions import Statefulness

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.revisions import Revision


async def initialize(frame: Frame) -> tuple[dict[str, Any], Frame]:
    """Negotiate the version and read the client's information; the transport opens the session."""
    params = initialize_params.read(frame.message.params)
    await visibility.check_groups(frame)
    server = frame.server
    supported = server.revisions(Statefulness.SESSION)
    revision = initialize_params.negotiate_version(params.version, supported)
    negotiated = frame.put_private(
        revision=revision,
        protocol_version=revision.version,
        client_info=params.client_info,
        client_capabilities=params.capabilities,
        init_meta=params.meta,
    )
    result = {
        "protocolVersion": revision.version,
        "capabilities": _capabilities(frame, revision),
        "serverInfo": copied(server.get_server_info(revision)),
        **_instructions(frame),
    }
    if server.has_hook("on_initialize"):  # It may reject the client.
        arguments = params.client_info, params.capabilities
        negotiated = await call_hook(server.on_initialize, *arguments, frame=negotiated)
    return result, negotiated


async def ping(frame: Frame) -> tuple[dict[str, Any], Frame]:
    return {}, frame


async def discover(frame: Frame) -> tuple[dict[str, Any], Frame]:
    await visibility.check_groups(frame)
    server = frame.server
    result = {
        "supportedVersions": [item.version for item in server.revisions(Statefulness.STATELESS)],
        "capabilities": _capabilities(frame, frame.revision),
        **_instructions(frame),
    }
    return result, frame


async def set_level(frame: Frame) -> tuple[dict[str, Any], Frame]:
    """Set the log level of the session: the least severe log message that it is sent."""
    level = string_param(frame.message.params, "level")
    if level not in LEVELS:
        raise InvalidParams(f"params.level must be one of {', '.join(LEVELS)}")
    return {}, frame.put_private(log_level=level).record(Change("log_level", "set", value=level))


def _capabilities(frame: Frame, revision: Revision) -> Any:
    declared = frame.server.capabilities.declared_to(
        revision, frame.principal, may_listen=frame.exchange.may_listen
    )
    return copied(declared)


def _instructions(frame: Frame) -> dict[str, Any]:
    instructions = frame.server.get_instructions()
    return {} if instructions is None else {"instructions": instructions}
