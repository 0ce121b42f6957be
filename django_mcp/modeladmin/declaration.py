"""admin_tools: the admin of the site as tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import isawaitable
from typing import Any, Unpack

from django.contrib import admin
from django.contrib.admin import AdminSite

from django_mcp import registry
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.components.tool import Approval, ToolComponent, ToolOptions, tool_component
from django_mcp.core.protocol import texts
from django_mcp.core.server.components import Expected
from django_mcp.core.server.server import Server
from django_mcp.modeladmin import model_schemas
from django_mcp.modeladmin.models import AnyModelAdmin, Models, checked_names
from django_mcp.modeladmin.tools import (
    IN_TWO_STEPS,
    OF_ONE_MODEL,
    READS,
    TOOLS,
    AdminTools,
    HasAdminPermission,
    HasModelPermission,
)

MAX_SETS = 12
"""Models with tools of their own: 77 tools, and usually less than 20,000 tokens. Hosts offer at
most 128 tools to a model, and a check warns of lists with more than 25,000 tokens."""
MAX_LABELS = 10
"""Models that a schema lists: nine tools have the list, so each model adds nine labels."""


class _Admins(list[Models]):
    """The admins that a server has tools of."""


def admin_tools(
    site: AdminSite | None = None,
    *,
    server: Server | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    prefix: str = "admin_",
    one_set_per_model: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **common: Unpack[ToolOptions],
) -> None:
    """Register the tools of an admin, by default of ``django.contrib.admin.site``.

    The views, forms and hooks of each ModelAdmin run for the caller, with their permissions.
    ``include`` and ``exclude`` are labels of apps and models; with ``read_only=True``, nothing can
    be changed. ``prefix`` comes before the names of the tools. With ``one_set_per_model=True``,
    each of at most twelve models has its own tools, with its fields and filters in their schemas.

    ``options`` has the options of each tool by its name without the prefix; further keywords are
    for all. With ``approval``, the call that confirms a deletion or an action waits for it. Raises
    ConfigurationError.
    """
    shared: dict[str, Any] = {**common}
    reads_only = shared.pop("read_only", None) is True
    models = Models(
        admin.site if site is None else site,
        include=checked_names("include", include),
        exclude=checked_names("exclude", exclude),
        reads_only=reads_only,
    )
    names = [name for name, hints in TOOLS.items() if hints is READS or not reads_only]
    own = options or {}
    for name in own:
        if name not in names:
            remedy = texts.did_you_mean(name, names, f"write one of {', '.join(names)}")
            raise ConfigurationError(f"options has {name!r}, which is none of the tools: {remedy}")
    server = registry.server_or_default(server, "admin_tools")
    declaration = _Declaration(models, prefix, own, shared)
    of_one_model = [name for name in names if one_set_per_model and name in OF_ONE_MODEL]
    for name in names:
        if name not in of_one_model:
            server.components.add(declaration.listing_models(name))
    if of_one_model:
        sets = _Sets(models, [_Pattern.of(declaration, name) for name in of_one_model])
        sets.check_number()
        # The admins of other apps may not be registered yet.
        server.components.defer(sets.build, sets.expected)
    server.state(_Admins).append(models)


def of_server(server: Server) -> Sequence[Models]:
    """Return the admins that a server has tools of."""
    return server.state(_Admins)


@dataclass(frozen=True)
class _Declaration:
    """The arguments of ``admin_tools``."""

    models: Models
    prefix: str
    options: Mapping[str, Mapping[str, Any]]
    common: Mapping[str, Any]

    @cached_property
    def permission(self) -> HasAdminPermission:
        """The permission of all tools, so that a list asks for it once."""
        return HasAdminPermission(self.models)

    def tool(self, name: str) -> ToolComponent:
        """Return a tool for all models."""
        hints = TOOLS[name]
        own = self.options.get(name, {})
        given = {**self.common, **own}
        approval = given.pop("approval", None)
        if approval is not None and hints is IN_TWO_STEPS:
            given["approval"] = _of_second_step(approval)
        elif approval is not None and "approval" in own:
            given["approval"] = approval
        declared: dict[str, Any] = {
            "name": f"{self.prefix}{name}",
            "permission": self.permission,
            "group": "admin",
            **hints,
            **given,
        }
        tools = AdminTools(self.models, asks=approval is None)
        component = tool_component(getattr(tools, name), **declared)
        return replace(component, module=type(self.models.site).__module__)

    def listing_models(self, name: str) -> ToolComponent:
        """Return a tool for all models; its schema lists them if they are few."""
        tool = self.tool(name)
        labels = self.models.named()
        if not 0 < len(labels) <= MAX_LABELS:
            return tool
        schema = model_schemas.with_models(tool.input.schema, labels)
        return replace(tool, input=replace(tool.input, schema=schema))


@dataclass(frozen=True)
class _Pattern:
    """A tool for all models, and how the tool of one model differs from it."""

    name: str
    tool: ToolComponent
    input: InputSchema
    """Its arguments, without the model."""
    has_own_permission: bool

    @classmethod
    def of(cls, declaration: _Declaration, name: str) -> _Pattern:
        tool = declaration.tool(name)
        method: Any = tool.handler
        arguments = tool_component(partial(method, ""), name=name).input
        return cls(name, tool, arguments, tool.permission is not declaration.permission)

    def of_model(self, models: Models, model_admin: AnyModelAdmin) -> ToolComponent:
        """Return the tool of one model, which is listed with the schemas of its arguments."""
        model = model_admin.opts
        description = self.tool.description
        if isinstance(description, str):
            description = f"{model.label}: {description}"
        permission = self.tool.permission
        if not self.has_own_permission:
            permission = HasModelPermission(models, model_admin, self.name)
        arguments = self.input.map(partial(_with_model, model.label))
        schema = model_schemas.of_tool(self.name, self.input.schema, models, model_admin)
        return replace(
            self.tool,
            name=f"{self.tool.name}_{model.app_label}_{model.model_name}",
            description=description,
            permission=permission,
            input=replace(arguments, schema=schema),
        )


def _with_model(label: str, validate: Callable[..., Any]) -> Callable[..., Any]:
    """``validate``, with the model among the arguments that it returns."""
    return lambda arguments: {**validate(arguments), "model": label}


@dataclass(frozen=True)
class _Sets:
    """The tools of single models, which are made when all admins are registered."""

    models: Models
    patterns: Sequence[_Pattern]

    def check_number(self) -> None:
        """Raise ConfigurationError if there are too many models."""
        number = len([*self.models.all()])
        if number > MAX_SETS:
            raise ConfigurationError(
                f"one_set_per_model=True would make {len(self.patterns)} tools for each of "
                f"{number} models, and a model chooses worse among so many: name at most "
                f"{MAX_SETS} models in include, or leave one_set_per_model out"
            )

    def build(self) -> Iterator[ToolComponent]:
        self.check_number()
        for model_admin in self.models.all():
            is_read_only = self.models.is_read_only(model_admin)
            for pattern in self.patterns:
                if pattern.tool.reads_only or not is_read_only:
                    yield pattern.of_model(self.models, model_admin)

    def expected(self) -> Iterator[Expected]:
        for pattern in self.patterns:
            tool = pattern.tool
            yield Expected(tool.kind, options=tool.options)


def _of_second_step(declared: Any) -> Approval:
    """Return the approval of the call that confirms: a preview needs none."""
    approval = declared if isinstance(declared, Approval) else Approval(declared)

    async def approvers(arguments: Any, frame: Any) -> Any:
        if arguments.get("confirm") is None:
            return None
        permission = approval.permission
        if not callable(permission):
            return permission
        chosen = permission(arguments, frame)
        return await chosen if isawaitable(chosen) else chosen

    return Approval(approvers, four_eyes=approval.four_eyes)
