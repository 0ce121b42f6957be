"""REST framework as a source of operations, and the tool of each operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from django_mcp.openapi.availability import SECRET_WORDS, Credentials, is_secret
from django_mcp.openapi.batches import Build, Built, Declared, Group
from django_mcp.rest.calls import credentials
from django_mcp.rest.operations import Operation, base_name
from django_mcp.rest.serializers import shared
from django_mcp.rest.spectacular import Descriptions
from django_mcp.rest.tools import Choices, component_of

OWN_OPTIONS = ("serializer", "query", "answer")
"""The ``options`` of an action, besides the options of its tool."""


class Views:
    """Views of REST framework."""

    @contextmanager
    def builder(self, operations: Sequence[Operation]) -> Iterator[Build]:
        """Describe these operations together: each serializer is read once."""
        try:
            yield partial(_built, Descriptions(operations))
        finally:
            shared.cache_clear()

    def examine(self, declared: Declared, operation: Operation) -> tuple[Credentials, str]:
        """Return the findings of the checks about an operation, without its schemas."""
        choices = declared.choices
        of_caller = credentials.of_operation(
            operation, operation.view(), choices["auth"], choices["authenticated_by"]
        )
        return of_caller, secret_of(operation)


SOURCE = Views()


def declare(
    view_class: Any,
    name: str,
    *,
    find: Any,
    options: Mapping[str, Any],
    choices: Mapping[str, Any],
    group: Group | None = None,
    action: str | None = None,
) -> Declared:
    """Return one operation of a view, as its author declares it.

    ``name`` is that of its method, and ``action`` its name in a group, by default the same.
    """
    view_name = str(view_class.__qualname__)
    return Declared(
        source=SOURCE,
        where=f"{view_class.__module__}.{view_name}.{name}",
        view_name=view_name,
        name=action or name,
        find=find,
        options=options,
        choices=choices,
        group=group,
    )


def _built(descriptions: Descriptions, declared: Declared, operation: Operation) -> Built:
    own = {name: it for name, it in declared.options.items() if name in OWN_OPTIONS}
    of_tool = {name: it for name, it in declared.options.items() if name not in own}
    choices = Choices(**{**declared.choices, **own})
    component, of_caller = component_of(operation, descriptions.of(operation), choices, of_tool)
    return Built(component, of_caller, secret_of(operation))


def secret_of(operation: Operation) -> str:
    """Return the action, the view or the field that is named like a credential; "" for none.

    A tool would hand the credential to a model and its host. Fields are those that the serializer
    of the view declares and returns.
    """
    if operation.is_extra and SECRET_WORDS.search(operation.action):
        return operation.action
    if operation.method == "delete":
        return ""
    view_name = base_name(operation.view_class)
    if SECRET_WORDS.search(view_name):
        return view_name
    serializer = getattr(operation.view_class, "serializer_class", None)
    meta = getattr(serializer, "Meta", None)
    declared = getattr(serializer, "_declared_fields", {})
    listed = getattr(meta, "fields", ())
    options = getattr(meta, "extra_kwargs", {})
    for name in [*declared, *(listed if isinstance(listed, list | tuple) else ())]:
        is_hidden = getattr(declared.get(name), "write_only", False)
        is_hidden = is_hidden or options.get(name, {}).get("write_only", False)
        if not is_hidden and is_secret(name):
            return str(name)
    return ""
