"""Creating and updating rows through a ModelForm."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ImproperlyConfigured, ValidationError
from django.db import IntegrityError, router, transaction
from django.db.models import (
    NOT_PROVIDED,
    ForeignKey,
    ManyToManyField,
    Model,
    OneToOneField,
    QuerySet,
)
from django.forms import BaseModelForm, modelform_factory
from django.forms.models import apply_limit_choices_to_to_formfield

from django_mcp.core.components.base import SEPARATOR, ConfigurationError, Problems, listed
from django_mcp.core.protocol.errors import ToolError
from django_mcp.forms.fields import field_argument
from django_mcp.forms.tool import field_value, is_filled_in, is_required
from django_mcp.runtime.django_types.saving import ChangedKey, KeyGuard, key_names
from django_mcp.toolsets import access
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.declaration import Declaration, check_not_all
from django_mcp.toolsets.queries.statement_time import limited
from django_mcp.toolsets.reading import Reader
from django_mcp.toolsets.schemas import Arguments, Parameter

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame


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
            return self._save(frame, model(), params.sent(), using, "create")

    def update(self, params: Arguments, frame: Frame) -> dict[str, Any]:
        sent = params.sent()
        value = sent.pop(self.declaration.key.name)
        if not sent:
            raise ToolError("Nothing to update: send at least one field with its new value.")
        using = router.db_for_write(self.declaration.model)
        with transaction.atomic(using=using), limited(using, self.toolset.statement_timeout):
            row = locked(self.reader, frame, value, using, "update")
            return self._save(frame, row, sent, using, "update")

    def _save(
        self, frame: Frame, row: Any, sent: Mapping[str, Any], using: str, operation: str
    ) -> dict[str, Any]:
        """Save a row, and return the fields that the caller may see.

        Runs in a transaction: a row that the caller could not see is rolled back by the error.
        """
        row._state.db = using
        form = self._form(frame, row, sent)
        guard = KeyGuard(form.instance)
        if _is_valid(form, sent, operation):
            _keep_hidden(form, sent, using)
        if problems := _problems(form, sent):
            raise ToolError("\n".join(problems))
        if changed := guard.changed():
            raise ChangedKey(changed)
        toolset = self.toolset
        perform = toolset.perform_create if operation == "create" else toolset.perform_update
        try:
            # A savepoint: without it, the transaction would be lost after a conflict.
            with transaction.atomic(using=using), guard.saves(always_inserts=True):
                saved = perform(frame, form)
        except IntegrityError as error:
            _check_complete(form.instance, type(toolset), error)
            raise ToolError("The values conflict with those of another row.") from error
        return self._result(frame, form.instance if saved is None else saved, using, operation)

    def _result(self, frame: Frame, saved: Any, using: str, operation: str) -> dict[str, Any]:
        """Return the saved row; raises ToolError unless the caller may have it like this."""
        allows = self.toolset.has_object_permission
        if operation == "create" and not allows(frame, saved, operation):
            raise ToolError(f"You may not create this {self.reader.name}.")
        key = self.declaration.key.path.reference
        row = self.reader.find(frame, getattr(saved, key), using=using)
        if row is None or not allows(frame, saved, "get"):
            # The limits of rows hold for new rows, too, as a row level policy of PostgreSQL does.
            raise ToolError(
                f"You may not {operation} a {self.reader.name} with these values: it would not "
                "be visible to you."
            )
        return row

    def _form(self, frame: Frame, instance: Any, sent: Mapping[str, Any]) -> Any:
        """The bound form; fields that were not sent keep their values."""
        names = {name: field_value(self.form_class.base_fields[name], sent[name]) for name in sent}
        form = self.toolset.get_form(frame, self.form_class, data=names, instance=instance)
        for name, field in form.fields.items():
            field.widget = JsonWidget()
            field.disabled = field.disabled or name not in sent
            if isinstance(field, forms.ModelChoiceField) and name in sent:
                # It accepts only related rows that the caller may see.
                choices: Any = field.queryset
                # A replica may not have a row yet that was created just now.
                using = router.db_for_write(choices.model)
                rows = self.toolset.get_related_queryset(frame, choices.model).using(using)
                field.queryset = access.limit_rows(choices.using(using), rows)
        return form


def locked(reader: Reader, frame: Frame, value: Any, using: str, operation: str) -> Any:
    """Return a row for writing; raises ToolError if it does not exist for the caller."""
    visible_rows = access.visible_rows_of(reader.toolset, frame, using=using)
    key = reader.declaration.key.path.reference
    rows = visible_rows.queryset.filter(**{key: value}).order_by()
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
        own = [field.name for field in _writable(declaration.model)]
        names = [column.name for column in declaration.columns if column.name in own]
    check_not_all(names, f"{where}.write_fields", _writable(declaration.model))
    names = listed(f"{where}.write_fields", names)
    _check_form_fields(toolset, names, declaration, where)
    return modelform_factory(
        declaration.model, RowForm, fields=[*names], formfield_callback=_form_field
    )


class RelatedRows(QuerySet[Any]):
    """The related rows of a form, as long as no call has made a form of the class."""


class RowForm(forms.ModelForm):  # type: ignore[type-arg]
    """The base of forms for toolsets without a form class of their own.

    It asks managers for related rows when it is made, in a call: a manager may need to know the
    tenant, and there is none while a toolset is declared.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if isinstance(field, forms.ModelChoiceField) and type(field.queryset) is RelatedRows:
                field.queryset = field.queryset.model._default_manager.all()
                apply_limit_choices_to_to_formfield(field)


def _form_field(field: Any, **options: Any) -> Any:
    """Return the form field of a model field, for ``RowForm``."""
    own = type(field).formfield
    if own in (ForeignKey.formfield, OneToOneField.formfield):
        options |= {"to_field_name": field.remote_field.field_name, "blank": field.blank}
        return super(ForeignKey, field).formfield(
            form_class=forms.ModelChoiceField,
            queryset=RelatedRows(model=field.remote_field.model),
            **options,
        )
    if own is ManyToManyField.formfield:
        return super(ManyToManyField, field).formfield(
            form_class=forms.ModelMultipleChoiceField,
            queryset=RelatedRows(model=field.remote_field.model),
            **options,
        )
    return field.formfield(**options)


def _check_form_fields(
    toolset: BaseToolset, names: Collection[str], declaration: Declaration, where: str
) -> None:
    """Raise ConfigurationError if a form with these fields cannot write rows."""
    writable = {field.name: field for field in _writable(declaration.model)}
    problems = [
        f"{where}.write_fields names {name!r}, which is no editable field of "
        f"{declaration.model.__name__}. There are: {', '.join(writable)}"
        for name in names
        if name not in writable
    ]
    kind = type(toolset)
    # Fields that the toolset itself sets are not known here.
    sets_more = (
        kind.perform_create is not BaseToolset.perform_create
        or kind.get_form is not BaseToolset.get_form
    )
    if "create" in declaration.operations and not sets_more:
        missing = []
        for name, field in writable.items():
            # Since Django 5.0, the database may have a default, too.
            of_database = getattr(field, "db_default", NOT_PROVIDED)
            has_default = field.has_default() or of_database is not NOT_PROVIDED
            may_be_empty = field.null or field.blank or field.many_to_many
            if not (has_default or may_be_empty or name in names):
                missing.append(repr(name))
        if missing:
            verb = "have" if len(missing) > 1 else "has"
            problems.append(
                f"{where} creates rows, but {', '.join(missing)} {verb} no default: set it in "
                "perform_create, such as form.instance.owner = frame.user, or add it to "
                "write_fields if callers may choose it"
            )
    if problems:
        raise ConfigurationError(SEPARATOR.join(problems))


def _writable(model: Any) -> list[Any]:
    fields = (*model._meta.concrete_fields, *model._meta.many_to_many)
    return [field for field in fields if field.editable and not field.auto_created]


def parameters(
    form_class: Any, where: str, *, key: str | None = None, model: type[Model] | None = None
) -> dict[str, Parameter]:
    """The arguments of a form. For an update, which has a ``key``, they are all optional.

    An update does not change the primary key of ``model``: the row would become another one.
    """
    without = set() if model is None else {key, *key_names(model)}
    problems = Problems()
    described = {}
    for name, field in form_class.base_fields.items():
        if name in without or not is_filled_in(field):
            continue
        with problems.noted():
            is_update = key is not None
            described[name] = _parameter(name, field, form_class, where, is_update=is_update)
    problems.raise_all()
    return described


def _parameter(
    name: str, field: forms.Field, form_class: Any, where: str, *, is_update: bool
) -> Parameter:
    if isinstance(field, forms.FileField):
        raise ConfigurationError(
            f"{where} writes the file {name!r}, which a toolset cannot: register the form with "
            "form_tool, or leave the field out of write_fields or of the form"
        )
    argument = field_argument(name, field, form_class, where=where)
    schema = dict(argument.schema)
    if is_update:
        # A field that is left out keeps its value.
        schema.pop("default", None)
    # A field with a default is required in a form of Django, but its value need not be sent.
    return Parameter(argument.annotation, schema, is_required=is_required(field) and not is_update)


def _is_valid(form: Any, sent: Mapping[str, Any], operation: str) -> bool:
    """Validate the form.

    An update does not check by themselves the values that it does not change. Rules about several
    values hold for them, too: those of ``clean``, and of unique values and constraints.
    """
    if operation != "update":
        return bool(form.is_valid())
    unsent = form.fields.keys() - sent.keys()
    for name in unsent:
        _keep_value(form, name)
    instance = form.instance
    clean_fields = instance.clean_fields

    def clean_sent_fields(exclude: Collection[str] | None = None) -> None:
        clean_fields(exclude={*(exclude or ()), *unsent})

    instance.clean_fields = clean_sent_fields
    try:
        return bool(form.is_valid())
    finally:
        del instance.clean_fields  # The row may be pickled, which it would prevent.


def _keep_value(form: Any, name: str) -> None:
    """Let a field of a form keep its value, whatever its own rules say about it today."""
    field = form.fields[name]
    clean = field.clean
    clean_more: Any = getattr(form, f"clean_{name}", None)

    def keep(*arguments: Any) -> Any:
        try:
            value = clean(*arguments)
        except ValidationError:
            return _present_value(form, name)
        # Fields of forms strip texts, complete addresses, and may empty a text to null.
        initial = arguments[0]
        is_present = isinstance(initial, str) and initial == getattr(form.instance, name, None)
        return initial if is_present and isinstance(value, str | None) else value

    def keep_more() -> Any:
        try:
            return clean_more()
        except ValidationError:
            return form.cleaned_data[name]

    field.clean = keep
    if clean_more is not None:
        setattr(form, f"clean_{name}", keep_more)


def _present_value(form: Any, name: str) -> Any:
    """The value of a row, as the field of its form returns it."""
    instance = form.instance
    if name in _relations_to_many(instance):
        return list(getattr(instance, name).all())
    if hasattr(instance, name):
        return getattr(instance, name)
    return form.get_initial_for_field(form.fields[name], name)


def _problems(form: Any, sent: Mapping[str, Any]) -> list[str]:
    """Return the errors of the form, by field.

    Nulls are an error where a field is optional in the form, and the database cannot have them.
    """
    problems = []
    for name in form.errors:
        for error in form.errors[name]:
            problems.append(str(error) if name == NON_FIELD_ERRORS else f"{name}: {error}")
    if not problems:
        for field in form.instance._meta.concrete_fields:
            if field.name not in sent or field.null:
                continue
            if getattr(form.instance, field.attname) is None:
                problems.append(f"{field.name}: {field.error_messages['null']}")
    return problems


def _check_complete(instance: Any, toolset: type, error: IntegrityError) -> None:
    """Raise ImproperlyConfigured if the toolset, and not the caller, left a value out."""
    missing = [
        field.name
        for field in instance._meta.concrete_fields
        # An object has no value of a generated field before it is saved.
        if not (field.null or field.primary_key or field.generated)
        and getattr(instance, field.attname) is None
    ]
    if missing:
        raise ImproperlyConfigured(
            f"{toolset.__module__}.{toolset.__qualname__} saves a row without {missing[0]!r}: set "
            "it in perform_create"
        ) from error


def _keep_hidden(form: Any, sent: Mapping[str, Any], using: str) -> None:
    """Keep related rows that the caller cannot see, when it writes those that it can see."""
    if not form.instance.pk:
        return
    relations = _relations_to_many(form.instance)
    for name, field in form.fields.items():
        is_written = name in sent and name in relations
        if is_written and isinstance(field, forms.ModelMultipleChoiceField):
            present = getattr(form.instance, name).using(using)
            visible: Any = field.queryset
            hidden = present.exclude(pk__in=visible.values("pk"))
            form.cleaned_data[name] = [*form.cleaned_data[name], *hidden]


def _relations_to_many(instance: Any) -> set[str | None]:
    """The attributes of a row that are many related rows. A form may have fields besides them."""
    meta = instance._meta
    names: set[str | None] = {field.name for field in meta.many_to_many}
    for relation in meta.related_objects:
        if relation.multiple:
            names.add(relation.get_accessor_name())
    return names
