"""The initialize request, which negotiates the version of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.errors import InvalidParams, Json
from django_mcp.protocol.revisions import Revision


@dataclass(frozen=True, slots=True)
class InitializeParams:
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
    return InitializeParams(version, capabilities, client_info, params.get("_meta") or {})


def _member(value: Json, name: str, kind: type, within: str = "") -> Any:
    member = value.get(name)
    if type(member) is not kind:
        wanted = "a string" if kind is str else "an object"
        raise InvalidParams(f"initialize needs {within}{name}, {wanted}")
    return member


def negotiate_version(version: str, served: Sequence[Revision]) -> Revision:
    """Return the revision with ``version``, else the last of ``served`` (LIFE-04 to 06)."""
    return next((revision for revision in served if revision.version == version), served[-1])
