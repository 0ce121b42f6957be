"""initialize: agreeing a version once, for a whole session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.errors import InvalidParams, Json
from django_mcp.protocol.revisions import Revision


@dataclass(frozen=True, slots=True)
class InitializeParams:
    """What a client says when it opens a session."""

    version: str
    capabilities: Json
    client_info: Json
    meta: Json


def read(params: Json) -> InitializeParams:
    """What ``initialize`` was given; raises InvalidParams (LIFE-02)."""
    client_info = _member(params, "clientInfo", dict)
    for name in ("name", "version"):
        _member(client_info, name, str, within="clientInfo.")
    return InitializeParams(
        version=_member(params, "protocolVersion", str),
        capabilities=_member(params, "capabilities", dict),
        client_info=client_info,
        meta=params.get("_meta") or {},
    )


def _member(value: Json, name: str, kind: type, within: str = "") -> Any:
    member = value.get(name)
    if type(member) is not kind:
        raise InvalidParams(f"initialize needs {within}{name}, {WORDS[kind]}")
    return member


WORDS: Mapping[type, str] = {str: "a string", dict: "an object"}


def negotiate_version(version: str, served: Sequence[Revision]) -> Revision:
    """The revision to speak: the one asked for, else the newest that is served (LIFE-04 to 06).

    ``served`` holds the revisions that open by handshake, oldest first; a version which has no
    handshake is therefore never agreed.
    """
    return next((revision for revision in served if revision.version == version), served[-1])
