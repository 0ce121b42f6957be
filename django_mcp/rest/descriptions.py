"""The description of a tool: its action, its objects, and the text of the author."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django_mcp.core.protocol.texts import plural
from django_mcp.rest.operations import Operation, base_name, is_viewset

VERBS: Mapping[str, str] = {
    "list": "List",
    "retrieve": "Retrieve one of",
    "create": "Create one of",
    "update": "Replace one of",
    "partial_update": "Change one of",
    "destroy": "Delete one of",
}


def of_operation(operation: Operation, written: str, summary: str = "") -> str:
    """Return the description, which begins with the ``summary`` of the author.

    ``written`` is the description by drf-spectacular.
    """
    text = _of_operation(operation, written, has_summary=bool(summary))
    if text.startswith(summary.rstrip(".")):
        return text
    return f"{summary.rstrip('.')}.\n\n{text}".strip()


def _of_operation(operation: Operation, written: str, *, has_summary: bool) -> str:
    """Return the author's text, else a sentence of our own unless there is a summary.

    Only a text for this very view counts: a docstring that it inherits describes a mixin, or REST
    framework.
    """
    view_class = operation.view_class
    inherited = {_cleaned(base.__doc__) for base in view_class.__mro__}
    if written and _cleaned(written) not in inherited | {_cleaned(operation.function.__doc__)}:
        return written
    is_own = operation.action in vars(view_class)
    of_action = _cleaned(operation.function.__doc__) if is_own else ""
    of_view = _cleaned(vars(view_class).get("__doc__"))
    if of_action:
        return of_action
    if not is_viewset(view_class) and of_view:
        return of_view
    sentence = "" if has_summary else _sentence(operation)
    return f"{sentence}\n\n{of_view}".strip()


def _sentence(operation: Operation) -> str:
    """Return a sentence of a verb and the name of the objects."""
    model = model_of(operation.view_class)
    words = base_name(operation.view_class).replace("_", " ")
    objects = words if model is None else plural_of(model)
    if operation.action in VERBS:
        return f"{VERBS[operation.action]} the {objects}."
    if not is_viewset(operation.view_class):
        return f"{operation.method.upper()} {words}."
    # The name of an action may be a verb or a noun, so it is quoted.
    action = operation.action.removesuffix("_view").replace("_", " ")
    verb = "Read" if operation.method == "get" else "Run"
    is_of_one = bool(operation.route.names)
    return f"{verb} “{action}” of {'one of ' if is_of_one else ''}the {objects}."


def plural_of(model: Any) -> str:
    """Return the plural of the name of a model: Django's default is the name and an s."""
    options = model._meta
    name = str(options.verbose_name)
    declared = str(options.verbose_name_plural)
    return plural(name) if declared == f"{name}s" else declared


def model_of(view_class: Any) -> Any:
    """Return the model of the objects of a view, from its query set or its serializer."""
    model = getattr(getattr(view_class, "queryset", None), "model", None)
    serializer = getattr(view_class, "serializer_class", None)
    return model or getattr(getattr(serializer, "Meta", None), "model", None)


@lru_cache(maxsize=256)  # The classes of REST framework are bases of every view.
def _cleaned(docstring: str | None) -> str:
    return inspect.cleandoc(docstring or "").strip()
