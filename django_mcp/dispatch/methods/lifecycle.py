"""initialize, ping and server/discover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.dispatch.invocation import call_hook
from django_mcp.protocol import initialize as initialize_params
from django_mcp.protocol.revisions import Statefulness

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame


async def initialize(frame: Frame) -> tuple[dict[str, Any], Frame]:
    """Negotiate the version and read the client's information; the transport opens the session."""
    params = initialize_params.read(frame.message.params)
    server = frame.server
    revision = initialize_params.negotiate_version(
        params.version, server.revisions(Statefulness.SESSION)
    )
    negotiated = frame.put_private(
        revision=revision,
        protocol_version=revision.version,
        client_info=params.client_info,
        client_capabilities=params.capabilities,
        init_meta=params.meta,
    )
    result = {
        "protocolVersion": revision.version,
        "capabilities": revision.describe_capabilities(server.get_capabilities()),
        "serverInfo": server.get_server_info(revision),
    }
    return _with_instructions(result, negotiated), await _after_hook(negotiated)


async def _after_hook(frame: Frame) -> Frame:
    """Return the Frame of the server's hook, which may reject the client."""
    server = frame.server
    if not server.has_hook("on_initialize"):
        return frame
    info, capabilities = frame.private["client_info"], frame.private["client_capabilities"]
    return await call_hook(server.on_initialize, info, capabilities, frame=frame)


async def ping(frame: Frame) -> tuple[dict[str, Any], Frame]:
    """Return an empty result."""
    return {}, frame


async def discover(frame: Frame) -> tuple[dict[str, Any], Frame]:
    """Return the supported versions and the capabilities."""
    server = frame.server
    result = {
        "supportedVersions": [item.version for item in server.revisions(Statefulness.STATELESS)],
        "capabilities": frame.revision.describe_capabilities(server.get_capabilities()),
    }
    return _with_instructions(result, frame), frame


def _with_instructions(result: dict[str, Any], frame: Frame) -> dict[str, Any]:
    instructions = frame.server.get_instructions()
    return result if instructions is None else {**result, "instructions": instructions}
