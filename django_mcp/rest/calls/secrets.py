"""Views that may answer with credentials, which a tool would hand to a model and its host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_mcp.openapi.secrets import KEYS, WORDS
from django_mcp.rest.operations import Operation, base_name


def of_operation(operation: Operation) -> str:
    """Return the action, the view or the field that is named like a credential; "" for none."""
    if operation.is_extra and WORDS.search(operation.action):
        return operation.action
    if operation.method != "delete":
        return next(_fields(operation.view_class), "")
    return ""


def _fields(view_class: Any) -> Iterator[str]:
    """Yield the name of the view, and fields that its serializer declares and returns."""
    if WORDS.search(base_name(view_class)):
        yield base_name(view_class)
    serializer = getattr(view_class, "serializer_class", None)
    meta = getattr(serializer, "Meta", None)
    declared = getattr(serializer, "_declared_fields", {})
    listed = getattr(meta, "fields", ())
    names = [*declared, *(listed if isinstance(listed, list | tuple) else ())]
    options = getattr(meta, "extra_kwargs", {})
    for name in dict.fromkeys(names):
        is_hidden = getattr(declared.get(name), "write_only", False)
        is_hidden = is_hidden or options.get(name, {}).get("write_only", False)
        if not is_hidden and (WORDS.search(name) or name in KEYS):
            yield name
