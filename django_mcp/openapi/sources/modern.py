"""django-modern-rest as a source of operations: the document of a router.

The only module that imports django-modern-rest, and only where a router of it is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django_mcp.openapi.sources import documents
from django_mcp.openapi.sources.base import Calling, Candidate


def is_router(target: Any) -> bool:
    """Whether it is a router of django-modern-rest."""
    module = sys.modules.get("dmr.routing")
    return module is not None and isinstance(target, module.Router)


def operations(router: Any, calling: Calling) -> Iterator[Candidate]:
    """Yield the operations of a router at its URLs."""
    from dmr.openapi import build_schema

    yield from documents.operations(build_schema(router).convert(), calling, "")
