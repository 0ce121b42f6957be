"""Documents of OpenAPI as sources of operations, whatever their views are made with.

The only module that imports django-modern-rest, and only where a router of it is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol.texts import did_you_mean
from django_mcp.openapi.calls.credentials import SESSION, DocumentCredentials, session_schemes
from django_mcp.openapi.document import Described, Document, read
from django_mcp.openapi.tools import Calling, Candidate, Operation, at_route


def is_document(target: Any) -> bool:
    """Whether it is a document, or the path of one."""
    return isinstance(target, str | Path | Mapping)


def is_router(target: Any) -> bool:
    """Whether it is a router of django-modern-rest, which makes a document."""
    module = sys.modules.get("dmr.routing")
    return module is not None and isinstance(target, module.Router)


def operations_of_router(router: Any, calling: Calling) -> Iterator[Candidate]:
    """Yield the operations of a router of django-modern-rest at its URLs."""
    from dmr.openapi import build_schema

    yield from operations(build_schema(router).convert(), calling, "")


def operations(target: Any, calling: Calling, prefix: str | None = None) -> Iterator[Candidate]:
    """Yield the operations of a document; raises ConfigurationError for an invalid one."""
    content = target if isinstance(target, Mapping) else read(target)
    document = Document(content, prefix=calling.prefix or prefix)
    of_session = session_schemes(document.schemes)
    check_schemes(document, calling)
    place = "document" if isinstance(target, Mapping) else target
    for described in document.operations():
        yield Candidate(
            name=described.tool_name(described.id),
            described=described,
            where=f"{place} {described.where}",
            find=partial(operation_of, document, described, calling, of_session),
        )


def operation_of(
    document: Document, described: Described, calling: Calling, of_session: frozenset[str]
) -> Operation:
    """Return an operation at its route, with whom its security accepts."""
    credentials = DocumentCredentials(
        security=described.security,
        session_schemes=of_session,
        authenticated_by=frozenset(map(str, calling.authenticated_by)),
        find_headers=calling.credentials,
    )
    names = (scheme.get("name") for scheme in document.schemes.values())
    return at_route(
        described,
        calling,
        credentials=credentials,
        secret_headers=frozenset(str(name).lower().replace("_", "-") for name in names if name),
    )


def check_schemes(document: Document, calling: Calling) -> None:
    """Raise ConfigurationError for a security scheme that the document lacks."""
    known = {*document.schemes, SESSION}
    for name in calling.authenticated_by:
        if name not in known:
            hint = did_you_mean(str(name), known, f"there are {', '.join(sorted(known))}")
            raise ConfigurationError(
                f"authenticated_by has {name!r}, which is no security scheme here: {hint}"
            )
