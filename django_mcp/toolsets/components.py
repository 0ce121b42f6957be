"""The tools and the resource template of a toolset."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import cleandoc
from typing import Any

from django.utils.text import slugify
from pydantic import TypeAdapter, ValidationError

from django_mcp.core.components.base import Component, ConfigurationError, Problems
from django_mcp.core.components.declaration import line_of, snake_case
from django_mcp.core.components.outputs import OutputSchema
from django_mcp.core.components.resource import resource_component
from django_mcp.core.components.serializers import encoded
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ResourceNotFound
from django_mcp.runtime.django_types.field_types import formatted
from django_mcp.toolsets import access, declaration, schemas, writes
from django_mcp.toolsets.aggregation import Aggregator
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.deletion import Deleter
from django_mcp.toolsets.kinds import Schema
from django_mcp.toolsets.reading import Reader
from django_mcp.toolsets.schemas import Arguments, Parameter
from django_mcp.toolsets.tables import TableView
from django_mcp.toolsets.writes import Writer

Handler = Callable[[Arguments, Frame], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One tool of a toolset."""

    handler: Handler
    parameters: dict[str, Parameter]
    output: Schema
    title: str
    """With a place for the name of the model."""
    is_plural: bool
    description: str
    hints: dict[str, bool]


READS = {"read_only": True, "open_world": False}
ADDS = {"read_only": False, "destructive": False, "open_world": False}
CHANGES = {"read_only": False, "destructive": True, "idempotent": True, "open_world": False}


def build(toolset: BaseToolset) -> list[Component]:
    """Return the components of a toolset; raises ConfigurationError for a wrong declaration."""
    try:
        return _Builder(toolset).components()
    except ConfigurationError:
        raise
    except Exception as error:
        where = f"{type(toolset).__module__}.{type(toolset).__qualname__}"
        raise ConfigurationError(
            f"{where} cannot be offered: {type(error).__name__}: {error}"
        ) from error


class _Builder:
    def __init__(self, toolset: BaseToolset) -> None:
        self._toolset = toolset
        self._where = f"{type(toolset).__module__}.{type(toolset).__qualname__}"
        self._options = toolset.model._meta
        self._declared = declaration.read(toolset)
        written = str(self._options.verbose_name_raw)
        # Letters beyond ASCII would be left out of the name of a tool.
        readable = written if written.isascii() else snake_case(toolset.model.__name__)
        self._name = toolset.name or _identifier(readable)
        plural: Any = self._options.verbose_name_plural
        is_english = isinstance(plural, str) and plural.isascii()
        default_plural = _identifier(plural) if is_english else f"{self._name}s"
        self._plural = toolset.name_plural or default_plural
        self._reader = Reader(toolset, self._declared, self._name.replace("_", " "))

    def components(self) -> list[Component]:
        problems = Problems()
        for attribute in ("permissions", "options"):
            for name in getattr(self._toolset, attribute) or ():
                with problems.noted():
                    declaration.check_operation(name, f"{self._where}.{attribute}")
        for name, options in self._toolset.options.items():
            # Resources and related rows need the permission, too, and not the tool alone.
            with problems.noted():
                if "permission" in options:
                    raise ConfigurationError(
                        f"{self._where}.options has a permission for {name!r}: write "
                        f"permissions = {{{name!r}: …}}"
                    )
        components: list[Component] = []
        for name in self._declared.operations:
            with problems.noted():
                components.append(self._tool(name, BUILDERS[name](self)))
        problems.raise_all()
        # A resource is read at once: no call of it waits for an approval.
        waits = self._toolset.options.get("get", {}).get("approval") is not None
        if "get" in self._declared.operations and self._toolset.uri_scheme != "" and not waits:
            components.append(self._template())
        return components

    def _tool(self, name: str, operation: Operation) -> ToolComponent:
        given = schemas.input_of(operation.parameters)

        def execute(params: Any, frame: Frame) -> Any:
            return operation.handler(params, frame)

        options = self._options
        rows = options.verbose_name_plural if operation.is_plural else options.verbose_name
        tool_name = f"{name}_{self._plural if operation.is_plural else self._name}"
        has_table = name == "list" and self._toolset.ui
        built = tool_component(
            execute,
            **{
                "name": tool_name,
                "title": formatted(operation.title, rows),
                "description": self._description(operation, rows),
                "input_schema": given.model,
                "permission": access.permission_of(self._toolset, name),
                "group": self._toolset.group,
                "ui": TableView(tool_name, rows, self._declared) if has_table else None,
                **operation.hints,
                **self._toolset.options.get(name, {}),
            },
        )
        output = OutputSchema(operation.output, encoded, lambda value: value)
        input_schema = replace(built.input, schema=given.schema)
        return replace(built, input=input_schema, output=output, **self._source())

    def _description(self, operation: Operation, rows: Any) -> Any:
        text = formatted(operation.description, rows)
        docstring = cleandoc(type(self._toolset).__doc__ or "")
        if not docstring:
            return text
        return formatted("{}\n\n" + docstring.replace("{", "{{").replace("}", "}}"), text)

    def _source(self) -> dict[str, Any]:
        """Where the class is, for lists of the site's components."""
        kind = type(self._toolset)
        return {"module": kind.__module__, "find_line": partial(line_of, kind)}

    def _template(self) -> Component:
        key = self._declared.key
        reader = self._reader
        scheme = self._toolset.uri_scheme or re.sub(r"[^a-z0-9+.-]", "-", self._name.lower())

        adapter: TypeAdapter[Any] = TypeAdapter(key.kind.annotation)

        def read(frame: Frame, **variables: str) -> dict[str, Any]:
            try:
                row = reader.find(frame, adapter.validate_python(variables[key.name]))
            except ValidationError as error:
                raise ResourceNotFound from error
            if row is None:
                raise ResourceNotFound
            return row

        def complete(value: str, frame: Frame) -> Any:
            return reader.complete(value, frame)

        get = self._toolset.options.get("get", {})
        inherited = ("scopes", "when_denied", "group")
        shared: dict[str, Any] = {"group": self._toolset.group}
        shared |= {name: get[name] for name in inherited if name in get}
        template = resource_component(
            read,
            f"{scheme}://{{{key.name}}}",
            name=self._name,
            title=formatted("{}", self._options.verbose_name),
            description=cleandoc(type(self._toolset).__doc__ or ""),
            mime_type="application/json",
            permission=access.permission_of(self._toolset, "get"),
            complete={key.name: complete},
            **shared,
        )
        return replace(template, **self._source())

    def list(self) -> Operation:
        return Operation(
            handler=self._reader.page,
            parameters=schemas.list_parameters(self._toolset, self._declared),
            output=schemas.page_schema(self._declared),
            title="List {}",
            is_plural=True,
            description=f"List {{}}, {self._toolset.page_size} on a page. All given filters must "
            "match. Long texts are cut. For the next page, repeat the call with next_cursor as "
            "cursor.",
            hints=READS,
        )

    def get(self) -> Operation:
        return Operation(
            handler=self._reader.get,
            parameters=self._key(),
            output=schemas.row_schema(self._declared),
            title="Get {}",
            is_plural=False,
            description=f"Return one {{}} by its {self._declared.key.name}.",
            hints=READS,
        )

    def count(self) -> Operation:
        return Operation(
            handler=self._reader.count,
            parameters=schemas.filter_parameters(self._declared),
            output=schemas.count_schema(),
            title="Count {}",
            is_plural=True,
            description="Count {}. All given filters must match.",
            hints=READS,
        )

    def aggregate(self) -> Operation:
        return Operation(
            handler=Aggregator(self._toolset, self._declared).aggregate,
            parameters=schemas.aggregate_parameters(self._declared),
            output=schemas.groups_schema(self._declared),
            title="Aggregate {}",
            is_plural=True,
            description="Count {}, and compute sums, averages, minima or maxima, for all of them "
            f"or for groups: at most {self._toolset.max_groups}, the largest first.",
            hints=READS,
        )

    def create(self) -> Operation:
        writer = self._writer()
        return Operation(
            handler=writer.create,
            parameters=writes.parameters(writer.form_class, self._where),
            output=schemas.row_schema(self._declared),
            title="Create {}",
            is_plural=False,
            description="Create one {} and return it.",
            hints=ADDS,
        )

    def update(self) -> Operation:
        key = self._declared.key.name
        writer = self._writer()
        model = self._declared.model
        written = writes.parameters(writer.form_class, self._where, key=key, model=model)
        return Operation(
            handler=writer.update,
            parameters={**self._key(), **written},
            output=schemas.row_schema(self._declared),
            title="Update {}",
            is_plural=False,
            description=f"Update one {{}}, which {key} names, and return it. Only the given "
            "fields change.",
            hints=CHANGES,
        )

    def delete(self) -> Operation:
        hints = {**CHANGES, "requests_input": True} if self._toolset.confirm_delete else CHANGES
        deleter = Deleter(self._toolset, self._reader)
        dependents = "" if deleter.is_overridden else ", with everything that depends on it"
        return Operation(
            handler=deleter.delete,
            parameters=self._key(),
            output=schemas.deletion_schema(self._declared.key),
            title="Delete {}",
            is_plural=False,
            description=f"Delete one {{}}, which {self._declared.key.name} names{dependents}.",
            hints=hints,
        )

    def _key(self) -> dict[str, Parameter]:
        return {self._declared.key.name: schemas.key_parameter(self._declared.key)}

    def _writer(self) -> Writer:
        form_class = writes.form_of(self._toolset, self._declared, self._where)
        return Writer(self._toolset, self._declared, self._reader, form_class)


BUILDERS: dict[str, Callable[[_Builder], Operation]] = {
    "list": _Builder.list,
    "get": _Builder.get,
    "count": _Builder.count,
    "aggregate": _Builder.aggregate,
    "create": _Builder.create,
    "update": _Builder.update,
    "delete": _Builder.delete,
}


def _identifier(text: str) -> str:
    return slugify(text).replace("-", "_")
