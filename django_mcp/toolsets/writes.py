"""Creating and updating rows through a ModelForm."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS
from django.db import IntegrityError, router, transaction
from django.forms import BaseModelForm, modelform_factory
from django.utils.choices import flatten_choices
from pydantic import Field

from django_mcp.components.base import ConfigurationError
from django_mcp.protocol.errors import ToolError
from django_mcp.runtime.django_types.fields import FieldKind, entry_of
from django_mcp.toolsets import access
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.declaration import Declaration
from django_mcp.toolsets.kinds import MAX_CHOICES, Schema, kind_of, nullable
from django_mcp.toolsets.queries.statement_time import limited
from django_mcp.toolsets.queries.visible_rows import is_everything
from django_mcp.toolsets.reading import Reader
from django_mcp.toolsets.schemas import Arguments, Parameter

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame

MAX_TEXT = 100_000
"""Characters of a text that is written, if its field has no limit."""
MAX_RELATED = 100
"""Related rows that are written in one field."""


class JsonWidget(forms.Widget):
    """Passes a value on as it is: the fields of forms clean the values of JSON."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The operations "create" and "update" of one toolset."""

    toolset: BaseToolset
    declaration: Declaration
    reader: Reader
    form_class: Any
    """A class derived from ModelForm."""

    def create(self, params: Arguments, frame: Frame) -> dict[str, Any]:
        model = self.declaration.model
        using = router.db_for_write(model)
        with transaction.atomic(using=using), limited(using, self.toolset.statement_timeout):
            return self._save(frame, model(), params.sent(), "create")

    def update(self, params: Arguments, frame: Frame) -> dict[str, Any]:
        sent = params.sent()
        value = sent.pop(self.declaration.key.name)
        if not sent:
            raise ToolError("Nothing to update: send at least one field with its new value.")
        using = router.db_for_write(self.declaration.model)
        with transaction.atomic(using=using), limited(using, self.toolset.statement_timeout):
            row = locked(self.reader, frame, value, using, "update")
            return self._save(frame, row, sent, "update")

    def _save(
        self, frame: Frame, instance: Any, sent: Mapping[str, Any], operation: str
    ) -> dict[str, Any]:
        """Save a row, and return what the caller may see of it.

        Runs in a transaction: a row that the caller could not see is rolled back by the error.
        """
        form = self._form(frame, instance, sent)
        problems = [*_problems(form, sent, operation)]
        if problems:
            raise ToolError("\n".join(problems))
        allows = self.toolset.has_object_permission
        if operation == "create" and not allows(frame, form.instance, operation):
            raise ToolError(f"You may not create this {self.reader.name}.")

        try:
            # A savepoint: without it, the transaction would be lost after a conflict.
            with transaction.atomic(using=form.instance._state.db):
                saved = form.save()
        except IntegrityError as error:
            raise ToolError("The values conflict with those of another row.") from error

        key = self.declaration.key.path.field.attname
        row = self.reader.find(frame, getattr(saved, key), again=True)
        if row is None or not allows(frame, saved, "get"):
            # The limits of rows hold for new rows, too, as a row level policy of PostgreSQL does.
            raise ToolError(
                f"You may not {operation} a {self.reader.name} with these values: it would not "
                "be visible to you."
            )
        return row

    def _form(self, frame: Frame, instance: Any, sent: Mapping[str, Any]) -> Any:
        """The bound form, in which fields that were not sent keep their values."""
        names = {name: _form_value(self.form_class.base_fields[name], sent[name]) for name in sent}
        form = self.toolset.get_form(frame, self.form_class, data=names, instance=instance)
        for name, field in form.fields.items():
            field.widget = JsonWidget()
            field.disabled = field.disabled or name not in sent
            if isinstance(field, forms.ModelChoiceField) and name in sent:
                self._limit_choices(frame, field)
        if form.is_valid():
            _keep_hidden(form, sent)
        return form

    def _limit_choices(self, frame: Frame, field: Any) -> None:
        """Let a field accept only related rows that the caller may see."""
        rows = self.toolset.get_related_queryset(frame, field.queryset.model)
        if not is_everything(rows.query):
            field.queryset = field.queryset.filter(pk__in=rows.order_by().values("pk"))


def locked(reader: Reader, frame: Frame, value: Any, using: str, operation: str) -> Any:
    """Return a row for writing; raises ToolError if it does not exist for the caller."""
    visible_rows = access.visible_rows_of(reader.toolset, frame)
    key = reader.declaration.key.path.reference
    rows = visible_rows.queryset.using(using).filter(**{key: value}).order_by()
    row = rows.select_for_update().first()
    allows = reader.toolset.has_object_permission
    if row is None or not allows(frame, row, "get"):
        raise reader.missing(value)
    if not allows(frame, row, operation):
        raise ToolError(f"You may not {operation} this {reader.name}.")
    return row


def form_of(toolset: BaseToolset, declaration: Declaration, where: str) -> type[BaseModelForm[Any]]:
    """Return the form of a toolset; raises ConfigurationError for fields it cannot have."""
    if toolset.form_class is not None:
        if toolset.write_fields is not None:
            raise ConfigurationError(
                f"{where} has both form_class and write_fields: the form names its fields"
            )
        return toolset.form_class
    names = toolset.write_fields
    if names is None:
        names = [c.name for c in declaration.columns if _is_own(c.path.titled, c.path.name)]
    _check_form_fields(names, declaration, where)
    return modelform_factory(declaration.model, fields=[*names])


def _check_form_fields(names: Collection[str], declaration: Declaration, where: str) -> None:
    """Raise ConfigurationError if a form with these fields cannot write rows."""
    writable = {field.name: field for field in _writable(declaration.model)}
    for name in names:
        if name not in writable:
            raise ConfigurationError(
                f"{where}.write_fields names {name!r}, which is no editable field of "
                f"{declaration.model.__name__}. There are: {', '.join(writable)}"
            )
    if "create" not in declaration.operations:
        return
    for name, field in writable.items():
        # A row without related rows can be saved.
        is_needed = not (field.many_to_many or field.blank or field.has_default())
        if is_needed and name not in names:
            raise ConfigurationError(
                f"{where} creates rows, but {name!r} has no default: add it to write_fields, or "
                "give form_class"
            )


def _writable(model: Any) -> list[Any]:
    fields = (*model._meta.concrete_fields, *model._meta.many_to_many)
    return [field for field in fields if field.editable and not field.auto_created]


def _is_own(field: Any, name: str) -> bool:
    is_writable = getattr(field, "editable", False) and not field.auto_created
    return is_writable and field.name == name


def parameters(form_class: Any, where: str, *, without: str | None = None) -> dict[str, Parameter]:
    """The arguments of a form. They are all optional if ``without`` names the key of a row."""
    return {
        name: _parameter(name, field, where, is_required=without is None and field.required)
        for name, field in form_class.base_fields.items()
        if name != without and not field.disabled and not field.widget.is_hidden
    }


def _parameter(name: str, field: forms.Field, where: str, *, is_required: bool) -> Parameter:
    entry = entry_of(field, FIELDS)
    if entry is None:
        raise ConfigurationError(
            f"{where} writes {name!r}, a {type(field).__name__}, which JSON cannot have: give the "
            "class a JSON Schema with register_field_kind, or leave the field out of write_fields "
            "or of the form"
        )
    if isinstance(entry, FieldKind):
        annotation = entry.annotation
        schema = entry.schema
    else:
        annotation, schema = entry(field)
    if not field.required:
        annotation = annotation | None
        schema = nullable(schema)
    texts = {"title": field.label, "description": field.help_text}
    described = {**{member: text for member, text in texts.items() if text}, **schema}
    # A field with a default is required in a form of Django, but its value need not be sent.
    has_initial = field.initial is not None
    return Parameter(annotation, described, is_required=is_required and not has_initial)


def _form_value(field: forms.Field, value: Any) -> Any:
    if isinstance(field, forms.JSONField):
        return json.dumps(value)
    return value


def _problems(form: Any, sent: Mapping[str, Any], operation: str) -> Iterable[str]:
    """What the form rejects, by field. Values that an update does not change are not checked."""
    for name in [*form.errors]:
        if operation == "update" and name not in sent and name != NON_FIELD_ERRORS:
            del form.errors[name]
            continue
        for error in form.errors[name]:
            yield str(error) if name == NON_FIELD_ERRORS else f"{name}: {error}"


def _keep_hidden(form: Any, sent: Mapping[str, Any]) -> None:
    """Keep related rows that the caller cannot see, when it writes those that it can see."""
    for name, field in form.fields.items():
        if isinstance(field, forms.ModelMultipleChoiceField) and name in sent and form.instance.pk:
            present = getattr(form.instance, name).all()
            visible: Any = field.queryset
            hidden = present.exclude(pk__in=visible.values("pk"))
            form.cleaned_data[name] = [*form.cleaned_data[name], *hidden]


def _related(field: Any) -> tuple[Any, Schema]:
    options = field.queryset.model._meta
    target = options.get_field(field.to_field_name) if field.to_field_name else options.pk
    while target.is_relation:
        target = target.target_field
    kind = kind_of(target, "A form")
    return kind.annotation, kind.input_schema


def _several_related(field: Any) -> tuple[Any, Schema]:
    annotation, schema = _related(field)
    return (
        Annotated[list[annotation], Field(max_length=MAX_RELATED)],  # type: ignore[valid-type]
        {"type": "array", "items": schema, "maxItems": MAX_RELATED},
    )


def _choice(field: Any) -> tuple[Any, Schema]:
    choices: list[tuple[Any, Any]] = [*flatten_choices(field.choices)]
    pairs = [(value, label) for value, label in choices if value != ""]
    values = tuple(value for value, _ in pairs)
    if not 0 < len(values) <= MAX_CHOICES or not all(type(v) in (str, int) for v in values):
        return str, {"type": "string", "maxLength": MAX_TEXT}
    kinds = sorted({"string" if isinstance(value, str) else "integer" for value in values})
    enum = [{"const": value, "title": label} for value, label in pairs]
    return Literal[values], {"type": kinds if len(kinds) > 1 else kinds[0], "oneOf": enum}


def _several_choices(field: Any) -> tuple[Any, Schema]:
    one: Any
    one, schema = _choice(field)
    return (
        Annotated[list[one], Field(max_length=MAX_CHOICES)],
        {"type": "array", "items": schema, "maxItems": MAX_CHOICES},
    )


def _text(field: Any, **members: Any) -> tuple[Any, Schema]:
    longest = min(getattr(field, "max_length", None) or MAX_TEXT, MAX_TEXT)
    schema = {"type": "string", "maxLength": longest, **members}
    return Annotated[str, Field(max_length=longest)], schema


def _formatted(name: str) -> Callable[[Any], tuple[Any, Schema]]:
    annotation = Annotated[str, Field(max_length=100)]
    return lambda field: (annotation, {"type": "string", "format": name})


def _decimal(field: Any) -> tuple[Any, Schema]:
    schema = {"anyOf": [{"type": "number"}, {"type": "string"}], **_bounds(field)}
    return Annotated[str | int | float, Field()], schema


def _bounds(field: Any) -> Schema:
    bounds = {"minimum": field.min_value, "maximum": field.max_value}
    return {name: value for name, value in bounds.items() if isinstance(value, int | float)}


FIELDS: Mapping[type[forms.Field], Callable[[Any], tuple[Any, Schema]]] = {
    forms.ModelMultipleChoiceField: _several_related,
    forms.ModelChoiceField: _related,
    forms.MultipleChoiceField: _several_choices,
    forms.ChoiceField: _choice,
    forms.NullBooleanField: lambda field: (bool | None, {"type": ["boolean", "null"]}),
    forms.BooleanField: lambda field: (bool, {"type": "boolean"}),
    forms.DecimalField: _decimal,
    forms.FloatField: lambda field: (float, {"type": "number", **_bounds(field)}),
    forms.IntegerField: lambda field: (int, {"type": "integer", **_bounds(field)}),
    forms.DateTimeField: _formatted("date-time"),
    forms.DateField: _formatted("date"),
    forms.TimeField: lambda field: (str, {"type": "string"}),
    forms.DurationField: _formatted("duration"),
    forms.UUIDField: _formatted("uuid"),
    forms.JSONField: lambda field: (Any, {}),
    forms.EmailField: lambda field: _text(field, format="email"),
    forms.CharField: _text,
}
"""The type and the schema of each class of form fields; a subclass has those of its base."""
