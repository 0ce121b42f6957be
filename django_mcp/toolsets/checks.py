"""System checks of toolsets: rows that nothing limits, forgotten models, and large integers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Warning, register
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Model

from django_mcp import registry
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.server.server import Server
from django_mcp.toolsets import access, declaration, writes
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.toolset import ModelToolset


@dataclass(slots=True)
class _Reach:
    """How callers of one toolset reach the rows of one related model."""

    paths: list[str] = field(default_factory=list)
    """The tools that read them."""
    written: list[str] = field(default_factory=list)
    """The fields for their keys when they are written."""

    @property
    def described(self) -> str:
        verbs = {"shows": self.paths, "links": self.written}
        return " and ".join(f"{verb} {', '.join(them)}" for verb, them in verbs.items() if them)


@register("django_mcp")
def check_related_models(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    messages: list[CheckMessage] = []
    for server in registry.servers():
        for toolset in access.of_server(server):
            # A declaration that cannot work is reported with its server.
            with suppress(ConfigurationError):
                messages += _unlimited(server, toolset)
    return messages


@register("django_mcp")
def check_models(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Return a warning for each toolset without ``model``, unless it is the base of others."""
    modules = [sys.modules.get(f"{app.name}.mcp") for app in apps.get_app_configs()]
    return [
        Warning(
            f"{value.__module__}.{value.__qualname__} has no model: no client sees it.",
            hint="Write model = …, in the class itself.",
            id="django_mcp_toolsets.W002",
        )
        for module in modules
        if module is not None
        for value in [*vars(module).values()]
        if isinstance(value, type) and issubclass(value, ModelToolset)
        if value.__module__ == module.__name__ and not value.__subclasses__()
        if getattr(value, "model", None) is None
    ]


MAX_SAFE_INTEGER = 2**53
"""JavaScript has no integers beyond it, but floats."""


@register("django_mcp")
def check_large_integers(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    columns_by_toolset: dict[str, list[str]] = {}
    for server in registry.servers():
        for toolset in access.of_server(server):
            with suppress(ConfigurationError):
                columns = declaration.read(toolset).columns
                names = [column.name for column in columns if _may_be_large(column.path.field)]
                if names:
                    columns_by_toolset[
                        f"{type(toolset).__module__}.{type(toolset).__qualname__}"
                    ] = names
    if not columns_by_toolset:
        return []
    listed = "; ".join(
        f"{where} ({', '.join(names)})" for where, names in columns_by_toolset.items()
    )
    return [
        Warning(
            f"Toolsets return integers that may be larger than {MAX_SAFE_INTEGER:,}: {listed}. "
            "Clients in JavaScript round them.",
            hint=(
                "If such values exist, return a string, as a CharField or a GeneratedField has it; "
                "otherwise add a MaxValueValidator to the field, or silence this check."
            ),
            id="django_mcp.W060",
        )
    ]


def _may_be_large(column: Any) -> bool:
    """Whether a column is made for large integers that nothing limits; counted keys are not."""
    is_counted: bool = isinstance(column, models.AutoField)
    if is_counted or not isinstance(column, models.BigIntegerField):
        return False
    limits = [each for each in column.validators if isinstance(each, MaxValueValidator)]
    bounds = [each.limit_value for each in limits if isinstance(each.limit_value, int)]
    return not column.choices and min(bounds, default=MAX_SAFE_INTEGER + 1) > MAX_SAFE_INTEGER


def _unlimited(server: Server, toolset: BaseToolset) -> Iterator[CheckMessage]:
    if type(toolset).get_related_queryset is not ModelToolset.get_related_queryset:
        return
    where = f"{type(toolset).__module__}.{type(toolset).__qualname__}"
    for model, reach in _related_models(toolset, where).items():
        if access.of_model(server, model):
            continue
        name = model._meta.label
        yield Warning(
            f"{where} {reach.described}: rows of {name}, for which the MCP server "
            f"{server.name!r} has no toolset. Whoever may view {name} reaches all of its rows.",
            hint=(
                f"Declare a toolset of {name} whose get_queryset limits them, or override "
                "get_related_queryset, or silence this check if its rows are for everybody who may "
                "view it."
            ),
            id="django_mcp_toolsets.W001",
        )


def _related_models(toolset: BaseToolset, where: str) -> dict[type[Model], _Reach]:
    reached: dict[type[Model], _Reach] = {}
    declared = declaration.read(toolset)
    for path in declared.paths:
        for _, model in path.prefixes():
            paths = reached.setdefault(model, _Reach()).paths
            if path.name not in paths:
                paths.append(path.name)
    if {"create", "update"} & {*declared.operations}:
        form_class: Any = writes.form_of(toolset, declared, where)
        for name, form_field in form_class.base_fields.items():
            if isinstance(form_field, forms.ModelChoiceField) and form_field.queryset is not None:
                reached.setdefault(form_field.queryset.model, _Reach()).written.append(name)
    return reached
