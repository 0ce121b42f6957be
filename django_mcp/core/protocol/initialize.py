"""The initialize request, which negotiates the version of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidParams, Json
from django_mcp.core.protocol.limits import MAX_CLIENT
from django_mcp.core.protocol.revisions import Revision


@dataclass(frozen=True, slots=True)
class InitializeParams:
    """The parameters of ``initialize``, checked."""

    version: str
    capabilities: Json
    client_info: Json
    meta: Json


def read(params: Json) -> InitializeParams:
    """Return the parameters of ``initialize``; raise InvalidParams (LIFE-02)."""
    client_info = _member(params, "clientInfo", dict)
    for name in ("name", "version"):
        _member(client_info, name, str, within="clientInfo.")
    version = _member(params, "protocolVersion", str)
    capabilities = _member(params, "capabilities", dict)
    check_capabilities(capabilities, "params.capabilities")
    meta = params.get("_meta") or {}
    check_client({"clientInfo": client_info, "capabilities": capabilities, "_meta": meta})
    return InitializeParams(version, capabilities, client_info, meta)


OBJECTS = ("elicitation", "experimental", "extensions", "roots", "sampling", "tasks")
"""The capabilities of clients, each an object in the schemas of MCP."""


def check_capabilities(capabilities: Json, where: str) -> None:
    """Raise InvalidParams for a capability that is not an object."""
    for name in OBJECTS:
        if name in capabilities and type(capabilities[name]) is not dict:
            raise InvalidParams(f"{where}.{name} must be an object")


def check_client(members: Json) -> None:
    """Raise InvalidParams if the data to store of a client is larger than MAX_CLIENT."""
    if len(jsonrpc.encode(members)) > MAX_CLIENT:
        names = " and ".join(members)
        raise InvalidParams(f"{names} may have at most {MAX_CLIENT} bytes together")


def _member(value: Json, name: str, kind: type, within: str = "") -> Any:
    member = value.get(name)
    if type(member) is not kind:
        wanted = "a string" if kind is str else "an object"
        raise InvalidParams(f"initialize needs {within}{name}, {wanted}")
    return member


def negotiate_version(version: str, served: Sequence[Revision]) -> Revision:
    """Return the revision with ``version``, else the last of ``served`` (LIFE-04 to 06)."""
    return next((revision for revision in served if revision.version == version), served[-1])
