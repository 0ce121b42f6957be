"""form_tool: a Django form as a tool."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import router, transaction
from django.utils.datastructures import MultiValueDict

from django_mcp import registry
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.declaration import line_of, snake_case
from django_mcp.core.components.signature import check_call
from django_mcp.core.components.tool import ToolOptions, tool_component
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.core.server.server import Server
from django_mcp.forms.fields import described, field_argument
from django_mcp.runtime.django_types import dates
from django_mcp.runtime.django_types.saving import KEY_CHANGED, KeyGuard
from django_mcp.runtime.django_types.uploads import Uploads

FormKwargs = Callable[[Frame], Mapping[str, Any]]
OnValid = Callable[[Any, Frame], Any]


def form_tool(
    form_class: type[forms.BaseForm],
    *,
    on_valid: OnValid | None = None,
    form_kwargs: FormKwargs | None = None,
    server: Server | None = None,
    **options: Unpack[ToolOptions],
) -> None:
    """Register a Django form as a tool, on the default server unless ``server`` is another.

    The arguments are the fields that are neither disabled nor hidden. A call constructs the form
    with them and ``form_kwargs(frame)``, such as the ``instance`` of a ModelForm, and returns the
    result of ``on_valid(form, frame)``; by default it saves a ModelForm and returns the key and the
    text of the object. All run in a transaction. An invalid form is an error with the messages of
    each field. Other options are those of ``tool``: the name is that of the class without ``Form``.
    Raises ConfigurationError for a form that cannot be a tool.
    """
    check_form(form_class, on_valid, form_kwargs)
    target = registry.server_or_default(server, f"form_tool({form_class.__qualname__})")
    runner = FormRunner(form_class, on_valid or save, form_kwargs or no_kwargs)
    declared: Any = {
        "name": default_name(form_class),
        # Its own docstring: ``inspect.getdoc`` also reads the base class.
        "description": inspect.cleandoc(form_class.__doc__ or ""),
        "input_schema": input_schema(form_class, has_kwargs=form_kwargs is not None),
        "output_schema": SAVED if on_valid is None else None,
    }
    component = tool_component(runner.run, **{**declared, **options})
    find_line = partial(line_of, form_class)
    component = replace(component, module=form_class.__module__, find_line=find_line)
    target.components.add(component)


class InvalidForm(ToolError):
    """The form is not valid; the message has a line for each error."""

    def __init__(self, form: Any) -> None:
        super().__init__(described("The form is not valid.", error_lines(form)))
        self.form = form


class FormRunner:
    """Fills in, validates and processes a form for each call."""

    def __init__(self, form_class: type[Any], on_valid: OnValid, form_kwargs: FormKwargs) -> None:
        self._form_class = form_class
        self._on_valid = on_valid
        self._form_kwargs = form_kwargs
        fields = form_class.base_fields.items()
        self._files = [name for name, field in fields if isinstance(field, forms.FileField)]

    def run(self, arguments: dict[str, Any], frame: Frame) -> Any:
        # Before the transaction, which would be open while a host sends a file.
        with Uploads() as uploads:
            received = uploads.receive_all(arguments, self._files)
            with self._transaction():
                kwargs = self._form_kwargs(frame)
                data, files = form_data(self._form_class(**kwargs), received)
                return self._finish(self._form_class(**kwargs, data=data, files=files), frame)

    def submit(self, sent: Mapping[str, Any], frame: Frame) -> Any:
        """Process the form with the values that a browser sent, by the names of its inputs."""
        with self._transaction():
            kwargs = self._form_kwargs(frame)
            data = sent_data(self._form_class(**kwargs), sent)
            return self._finish(self._form_class(**kwargs, data=data), frame)

    def _transaction(self) -> AbstractContextManager[Any]:
        """A transaction in the database that stores the objects of the form."""
        options = getattr(self._form_class, "_meta", None)
        model = getattr(options, "model", None)
        return transaction.atomic(None if model is None else router.db_for_write(model))

    def filled_in(self, arguments: Mapping[str, Any], frame: Frame) -> Any:
        """Return the form for a user, with the arguments as its initial values."""
        kwargs = dict(self._form_kwargs(frame))
        fields = self._form_class.base_fields
        values = {name: initial_argument(fields[name], it) for name, it in arguments.items()}
        initial = {**kwargs.pop("initial", {}), **values}
        return self._form_class(**kwargs, initial=initial)

    def _finish(self, form: Any, frame: Frame) -> Any:
        if not isinstance(form, forms.BaseModelForm):
            if not form.is_valid():
                raise InvalidForm(form)
            return self._on_valid(form, frame)
        guard = KeyGuard(form.instance)
        if form.is_valid() and (changed := guard.changed()):
            form.add_error(changed if changed in form.fields else None, KEY_CHANGED)
        if not form.is_valid():
            raise InvalidForm(form)
        # An object may be of another database than its model is written to by default.
        using = router.db_for_write(type(form.instance), instance=form.instance)
        with transaction.atomic(using=using, savepoint=False), guard.saves():
            return self._on_valid(form, frame)


def check_form(form_class: Any, on_valid: Any, form_kwargs: Any) -> None:
    """Raise ConfigurationError unless it is a form class that can be processed, by functions."""
    if not (isinstance(form_class, type) and issubclass(form_class, forms.BaseForm)):
        raise ConfigurationError(f"{form_class!r} is no form class: give a forms.Form or ModelForm")
    if on_valid is None and not issubclass(form_class, forms.BaseModelForm):
        raise ConfigurationError(
            f"{form_class.__qualname__} is no ModelForm: give on_valid, a function of the valid "
            "form and the Frame"
        )
    of_form = f"of the form {form_class.__qualname__}"
    if on_valid is not None:
        remedy = "let it take (form, frame), and return the result"
        given = ("the valid form", "the Frame")
        check_call(on_valid, f"on_valid {of_form}", *given, remedy=remedy, must_be_sync=True)
    if form_kwargs is not None:
        remedy = "let it take the Frame, and return a dict, such as lambda frame: {…}"
        what = f"form_kwargs {of_form}"
        check_call(form_kwargs, what, "the Frame alone", remedy=remedy, must_be_sync=True)


def input_schema(form_class: Any, *, has_kwargs: bool) -> dict[str, Any]:
    """Return the schema of the fields that can be filled in.

    An ``instance``, or the ``initial`` of a form, provides the values of arguments that are left
    out: then the class does not know them, and which of its fields need an argument.
    """
    fields = {name: it for name, it in form_class.base_fields.items() if is_filled_in(it)}
    schemas = {name: field_argument(name, it, form_class).schema for name, it in fields.items()}
    if has_kwargs:
        schemas = {
            name: {k: v for k, v in it.items() if k != "default"} for name, it in schemas.items()
        }
    may_have_instance = has_kwargs and issubclass(form_class, forms.BaseModelForm)
    required = [] if may_have_instance else [n for n, it in fields.items() if is_required(it)]
    return {
        "type": "object",
        "properties": schemas,
        "required": required,
        "additionalProperties": False,
    }


def is_filled_in(field: forms.Field) -> bool:
    """Whether somebody who sees the form fills the field in: a hidden one has its initial value."""
    return not (field.disabled or field.widget.is_hidden)


def is_required(field: forms.Field) -> bool:
    return field.required and field.initial is None


SAVED = {
    "type": "object",
    "properties": {"pk": {"type": ["integer", "string"]}, "text": {"type": "string"}},
    "required": ["pk", "text"],
}


def save(form: Any, frame: Frame) -> dict[str, Any]:
    """Save a ModelForm; return the key and the text of its object."""
    saved = form.save()
    return {"pk": saved.pk if isinstance(saved.pk, int) else str(saved.pk), "text": str(saved)}


def no_kwargs(frame: Frame) -> dict[str, Any]:
    return {}


def form_data(
    form: Any, arguments: Mapping[str, Any], shown: Collection[str] | None = None
) -> tuple[Any, MultiValueDict[str, Any]]:
    """Return data and files of a form as a browser sends them; raises ToolError.

    An argument that is left out has its value in the form that a browser shows. ``shown`` are the
    fields that its page shows, where it does not show all: others are not sent. Files are received
    already.
    """
    if unknown := [name for name in arguments if name not in form.fields]:
        raise ToolError(f"{unknown[0]}: this form does not have the field")
    data: MultiValueDict[str, Any] = MultiValueDict()
    uploads: MultiValueDict[str, Any] = MultiValueDict()
    for name, field in form.fields.items():
        if shown is not None and name not in shown:
            continue
        key = form.add_prefix(name)
        value = arguments.get(name)
        is_given = name in arguments
        if isinstance(field, forms.FileField):
            if value is not None:
                uploads[key] = value
            elif is_given and isinstance(field.widget, forms.ClearableFileInput):
                data[field.widget.clear_checkbox_name(key)] = "on"
            continue
        initial = initial_value(form, name)
        sent = field_value(field, value) if is_given else initial
        for suffix, values in widget_values(field, sent, is_given=is_given):
            data.setlist(f"{key}{suffix}", values)
        if field.show_hidden_initial:
            # By it, the form knows whether a value that was computed for the page is changed.
            hidden_name = form.add_initial_prefix(name)
            hidden_widget = field.hidden_widget()
            for suffix, values in widget_values(field, initial, widget=hidden_widget):
                data.setlist(f"{hidden_name}{suffix}", values)
    return data, uploads


def sent_data(form: Any, sent: Mapping[str, Any]) -> MultiValueDict[str, Any]:
    """Return the data of a form that a user filled in; hidden fields keep their initial values."""
    data: MultiValueDict[str, Any] = MultiValueDict()
    for name, field in form.fields.items():
        key = form.add_prefix(name)
        if not is_filled_in(field):
            for suffix, values in widget_values(field, initial_value(form, name)):
                data.setlist(f"{key}{suffix}", values)
            continue
        for html_name in html_names(field, key):
            if sent.get(html_name) is not None:
                data.setlist(html_name, as_sent(field, sent[html_name]))
    return data


def as_sent(field: forms.Field, value: Any) -> list[Any]:
    """Return a value of the page, or of a model that calls its tool, as a browser sends it."""
    if isinstance(field, forms.JSONField):
        return [value if isinstance(value, str) else json.dumps(value)]
    values = value if isinstance(value, list) else [value]
    # A field for dates fails on anything but a text. The text of a number depends on a language.
    return values if isinstance(field, forms.IntegerField) else [str(each) for each in values]


def html_names(field: forms.Field, key: str) -> list[str]:
    """Return the names of the inputs of a field."""
    return [*_input_names(field.widget, key)]


def _input_names(widget: Any, key: str) -> Iterator[str]:
    if isinstance(widget, forms.MultiWidget):
        for suffix, part in zip(suffixes(widget), widget.widgets, strict=True):
            yield from _input_names(part, f"{key}{suffix}")
    elif isinstance(widget, forms.SelectDateWidget):
        yield from (f"{key}_{part}" for part in ("year", "month", "day"))
    else:
        yield key


def suffixes(widget: forms.MultiWidget) -> list[str]:
    """Return the ends of the names of the inputs, after the name of their field."""
    names: list[str] = getattr(widget, "widgets_names")  # noqa: B009 - unknown to django-stubs
    return names


def initial_value(form: Any, name: str) -> Any:
    field = form.fields[name]
    initial = form.get_initial_for_field(field, name)
    return None if initial is None else field.prepare_value(initial)


def initial_argument(field: forms.Field, value: Any) -> Any:
    """Return an argument as the initial value of its field; raises ToolError."""
    if isinstance(value, str) and isinstance(field, TIMES):
        return parsed_datetime(value)
    return value


TIMES = (forms.DateTimeField, forms.SplitDateTimeField)
"""Fields whose widgets show a datetime, and no text in the format of arguments."""


def field_value(field: forms.Field, value: Any) -> Any:
    """Return an argument as the value that the widget of its field renders."""
    if value is None:
        return None
    if isinstance(field, forms.JSONField):
        return json.dumps(value)
    if isinstance(field, forms.SplitDateTimeField):
        return field.prepare_value(parsed_datetime(value))
    return dates.for_form(value) if isinstance(field, forms.DateTimeField) else value


def parsed_datetime(text: str) -> Any:
    field = forms.DateTimeField()
    try:
        parsed = field.to_python(text)
        value = None if parsed is None else dates.to_site(parsed)
        field.prepare_value(value)  # As its widget will, in the current time zone.
        return value
    except ValidationError as error:
        raise ToolError(f"{text[:40]!r}: {' '.join(error.messages)}") from error
    except (ValueError, OverflowError) as error:
        raise ToolError(f"{text[:40]!r}: {error}") from error


def widget_values(
    field: forms.Field, value: Any, *, is_given: bool = False, widget: Any = None
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the values that the widget of a field sends, with the suffixes of their names.

    None that is given empties the field: a browser sends an empty input, not none at all.
    """
    widget = field.widget if widget is None else widget
    widget = getattr(widget, "widget", widget)  # The admin wraps widgets of relations.
    if isinstance(widget, forms.MultiWidget):
        if value is not None or is_given:
            parts = widget.decompress(value) or [None] * len(widget.widgets)
            for suffix, part, inner in zip(suffixes(widget), parts, widget.widgets, strict=False):
                # A part may have parts of its own.
                for ending, values in widget_values(field, part, is_given=True, widget=inner):
                    yield f"{suffix}{ending}", values
    elif isinstance(value, list | tuple):
        if isinstance(widget, forms.TextInput):  # It has all values in one text.
            yield "", [widget.format_value(field.prepare_value([*value]))]
        else:
            yield "", [*value]
    elif value is not None:
        yield "", [value]
    elif is_given and not getattr(widget, "allow_multiple_selected", False):
        yield "", [""]


def error_lines(form: Any) -> Iterator[str]:
    """Yield a line for each message of an invalid form."""
    for name, errors in form.errors.items():
        prefix = "" if name == NON_FIELD_ERRORS else f"{name}: "
        yield from (f"{prefix}{message}" for message in errors)


def default_name(form_class: type) -> str:
    return snake_case(form_class.__name__).removesuffix("_form")
