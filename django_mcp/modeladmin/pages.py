"""The page of an object: its form and its inlines, as a browser would show and send them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS
from django.utils.datastructures import MultiValueDict
from django.utils.formats import localize_input
from django.utils.text import slugify

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol import texts
from django_mcp.core.protocol.errors import ToolError
from django_mcp.forms.fields import field_argument, tool_error
from django_mcp.forms.tool import form_data
from django_mcp.modeladmin import options, values
from django_mcp.modeladmin.calls import READ_ONLY, Call, Visit
from django_mcp.modeladmin.html_forms import FILE
from django_mcp.modeladmin.models import Models
from django_mcp.runtime.django_types.saving import KEY_CHANGED, key_names

DELETE = "DELETE"
ROW_KEYS = ("pk", "delete")
"""The members of a row of an inline besides its fields."""
INVALID_HIDDEN = (
    "The page has rows that only a browser shows, and they are not valid: open it there."
)
MANAGEMENT = ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")


@dataclass(slots=True)
class Sent:
    """The data of a page, and the argument that each form of an inline came from."""

    data: MultiValueDict[str, Any] = field(default_factory=MultiValueDict)
    files: MultiValueDict[str, Any] = field(default_factory=MultiValueDict)
    rows: dict[tuple[str, int], str] = field(default_factory=dict)

    def add(self, part: tuple[Any, Any]) -> None:
        for target, source in zip((self.data, self.files), part, strict=True):
            for name, listed in source.lists():
                target.setlist(name, listed)


class ObjectPage:
    """The page to add or to change an object."""

    def __init__(self, models: Models, visit: Visit) -> None:
        self.adminform = visit.required("adminform")
        self.form = self.adminform.form
        self._models = models
        # A page is sent with all of its inlines, so that the site validates what it requires.
        self._all_inlines = {
            each.formset.prefix: each for each in visit.context["inline_admin_formsets"]
        }
        self.inlines = {
            name: each
            for name, each in self._all_inlines.items()
            if models.shows_rows(each.formset.model)
        }

    def shown(self) -> dict[str, Any]:
        """Return the values of the object and of its inlines."""
        rows = {
            name: [
                {"pk": values.key_of(row.original), **values.of_form(row)}
                for row in inline
                if row.original is not None
            ]
            for name, inline in self.inlines.items()
        }
        return {"values": values.of_form(self.adminform), **({"inlines": rows} if rows else {})}

    def described(self, reads_only: bool) -> dict[str, Any]:
        """Return the fields of the form, those that are only shown, and the inlines."""
        inlines = [
            _described_inline(name, inline, reads_only or self._only_reads(inline))
            for name, inline in self.inlines.items()
        ]
        return {**_described_fields(self.adminform), **({"inlines": inlines} if inlines else {})}

    def field(self, name: str) -> Any:
        """Return a field of the form, or of an inline (``items.product``); raises ToolError."""
        prefix, _, inner = name.rpartition(".")
        if not prefix:
            adminform = self.adminform
        elif prefix in self.inlines and (row := _blank_row(self.inlines[prefix])) is not None:
            adminform = row
        else:
            raise _unknown(name, [*self.inlines])
        if inner not in _writable(adminform):
            raise _unknown(name, _writable(adminform))
        return adminform.form.fields[inner]

    def sent(
        self, call: Call, given: Mapping[str, Any], rows: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> Sent:
        """Return the data of the page after somebody has filled it in; raises ToolError."""
        sent = Sent()
        arguments = _arguments(call, "", self.adminform, given)
        sent.add(form_data(self.form, arguments, _sent_names(self.adminform)))
        for name in rows:
            if name not in self.inlines:
                raise _unknown(name, [*self.inlines], "inline")
            if self._only_reads(self.inlines[name]):
                raise ToolError(f"{name}: {READ_ONLY}")
        for name, inline in self._all_inlines.items():
            _InlineRows(call, name, inline, sent).add([*rows.get(name, ())])
        return sent

    def problems(self, sent: Sent) -> ToolError:
        """Return the errors of a page that was sent and shown again."""
        lines = [*_error_lines(self.form, "")]
        for name, inline in self.inlines.items():
            lines += [f"{name}: {message}" for message in inline.formset.non_form_errors()]
            for index, form in enumerate(inline.formset.forms):
                place = sent.rows.get((name, index), f"{name}[pk={form.instance.pk}]")
                lines += _error_lines(form, place)
        hidden = [each for name, each in self._all_inlines.items() if name not in self.inlines]
        if not all(inline.formset.is_valid() for inline in hidden):
            lines.append(INVALID_HIDDEN)
        return tool_error("The form is not valid.", lines)

    def _only_reads(self, inline: Any) -> bool:
        return self._models.only_reads_rows(inline.formset.model)


class _InlineRows:
    """The rows of one inline: those that are there, as they are or changed, and new ones."""

    def __init__(self, call: Call, name: str, inline: Any, sent: Sent) -> None:
        self._call = call
        self._name = name
        self._inline = inline
        self._sent = sent
        self._formset = inline.formset

    def add(self, rows: list[Mapping[str, Any]]) -> None:
        existing = {str(row.original.pk): row for row in self._inline if row.original is not None}
        changed: dict[str, tuple[int, Mapping[str, Any]]] = {}
        new: list[tuple[int, Mapping[str, Any]]] = []
        for place, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise ToolError(f"{self._name}[{place}]: give an object.")
            if row.get("pk") is None:
                new.append((place, row))
                continue
            pk = str(row["pk"])
            if pk not in existing or pk in changed:
                raise ToolError(f"{self._name}[{place}].pk: there is no other row {pk[:80]} here.")
            changed[pk] = (place, row)
        for index, (pk, row_form) in enumerate(existing.items()):
            self._add_existing(index, row_form, changed.get(pk))
        for index, (place, row) in enumerate(new, start=len(existing)):
            self._add_new(index, place, row)
        given = len(existing) + len(new)
        blank = self._required_blanks(given)
        for place, (index, row_form) in enumerate(blank.items(), start=len(rows)):
            self._sent.rows[self._name, index] = f"{self._name}[{place}]"
            self._sent.add(form_data(row_form.form, {}, _sent_names(row_form)))
        management = self._formset.management_form
        counts = (given + len(blank), len(existing), 0, 1000)
        for name, count in zip(MANAGEMENT, counts, strict=True):
            self._sent.data[management.add_prefix(name)] = count

    def _required_blanks(self, given: int) -> dict[int, Any]:
        """Return the blank forms that the page shows up to ``min_num``, by their indexes.

        A browser sends them, and the site requires them to be filled in.
        """
        shown = [*self._inline][: len(self._formset.forms)]
        required = min(self._formset.min_num, len(shown))
        return {index: shown[index] for index in range(given, required)}

    def _add_existing(
        self, index: int, row_form: Any, change: tuple[int, Mapping[str, Any]] | None
    ) -> None:
        form = row_form.form
        arguments: dict[str, Any] = {}
        if change is not None:
            place, row = change
            path = f"{self._name}[{place}]"
            self._sent.rows[self._name, index] = path
            given = {name: value for name, value in row.items() if name not in ROW_KEYS}
            for name in key_names(self._formset.model):
                if name in given:
                    raise ToolError(f"{path}.{name}: {KEY_CHANGED}")
            if given and not self._inline.has_change_permission:
                raise ToolError(f"{path}: you may not change these rows.")
            arguments = _arguments(self._call, path, row_form, given)
            if row.get("delete"):
                if DELETE not in form.fields:
                    raise ToolError(f"{path}: you may not delete these rows.")
                arguments[DELETE] = True
        self._sent.add(form_data(form, arguments, {*_sent_names(row_form), DELETE}))

    def _add_new(self, index: int, place: int, row: Mapping[str, Any]) -> None:
        path = f"{self._name}[{place}]"
        blank = _blank_row(self._inline)
        if blank is None or row.get("delete"):
            raise ToolError(f"{path}: you may not add rows here; a row that is there has a pk.")
        most = self._formset.max_num
        if index >= most >= 0:
            raise ToolError(
                f"{path}: the page has room for {most} rows, with those that are there."
            )
        form = blank.form
        form.prefix = self._formset.add_prefix(index)
        self._sent.rows[self._name, index] = path
        given = {name: value for name, value in row.items() if name not in ROW_KEYS}
        arguments = _arguments(self._call, path, blank, given)
        form.data, form.files = sent = form_data(form, arguments, _sent_names(blank))
        # The formset passes over a row that is as the page shows it.
        if not form.has_changed():
            raise ToolError(
                f"{path}: a new row needs a value that is not the default of its field."
            )
        self._sent.add(sent)


def _blank_row(inline: Any) -> Any:
    """Return the form of a new row, or None where the caller may add none."""
    if not inline.has_add_permission:
        return None
    *_, blank = inline
    return blank


def _writable(adminform: Any) -> list[str]:
    """Return the names of the fields that somebody fills in, but for passwords."""
    form = adminform.form
    fields = form.fields
    return [
        name
        for name, shown in values.shown_fields(adminform)
        if not shown.is_readonly
        and not fields[name].disabled
        and not fields[name].widget.is_hidden
        and not values.is_secret(name, fields[name], form)
    ]


def _sent_names(adminform: Any) -> set[str]:
    """Return the names of the fields that the page has inputs for."""
    names = {name for name, it in values.shown_fields(adminform) if not it.is_readonly}
    form = adminform.form
    # The page of an inline also has the keys of its rows, hidden.
    for name, form_field in form.fields.items():
        is_parent = isinstance(form_field, forms.models.InlineForeignKeyField)
        is_hidden = form_field.widget.is_hidden
        if is_parent or (is_hidden and name == form._meta.model._meta.pk.name):
            names.add(name)
    return names


def _arguments(call: Call, path: str, adminform: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for a form, with keys of related objects; raises ToolError."""
    writable = _writable(adminform)
    form = adminform.form
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        place = f"{path}.{name}" if path else name
        if name not in writable:
            raise _refused(place, name, adminform, writable)
        arguments[name] = _argument(call, place, form.fields[name], value)
    for prepopulated in getattr(adminform, "prepopulated_fields", ()):
        _prepopulate(prepopulated, form, arguments)
    return arguments


def _argument(call: Call, place: str, field: Any, value: Any) -> Any:
    if isinstance(field, forms.ModelChoiceField):
        return options.resolved(call, place, field, value)
    if isinstance(field, forms.FileField):
        return call.file(place, value)
    is_json = isinstance(field, forms.JSONField)
    is_split = isinstance(field, forms.SplitDateTimeField)
    takes_list = is_json or isinstance(field, forms.MultipleChoiceField | forms.MultiValueField)
    if isinstance(value, dict) and not is_json:
        raise ToolError(f"{place}: this field takes no object.")
    if isinstance(value, list) and (is_split or not (takes_list or hasattr(field, "base_field"))):
        raise ToolError(f"{place}: this field takes one value.")
    if isinstance(value, int | float) and not (is_json or isinstance(field, forms.BooleanField)):
        # A browser sends texts, and fields expect them.
        return localize_input(value) if field.localize else str(value)
    return value


def _prepopulate(prepopulated: Mapping[str, Any], form: Any, arguments: dict[str, Any]) -> None:
    """Fill in a field as the script of the page does, while somebody types the others."""
    target = prepopulated["field"].name
    if target in arguments or not form.instance._state.adding:
        return
    words = [arguments.get(each.name) for each in prepopulated["dependencies"]]
    text = slugify(" ".join(str(word) for word in words if isinstance(word, str | int)))
    if text:
        arguments[target] = text[: form.fields[target].max_length or None]


def _refused(place: str, name: str, adminform: Any, writable: Sequence[str]) -> ToolError:
    form = adminform.form
    if name in form.fields and values.is_secret(name, form.fields[name], form):
        return ToolError(f"{place}: passwords are set in the browser, not by a tool.")
    if any(name == shown for shown, _ in values.shown_fields(adminform)):
        return ToolError(f"{place}: this field is read-only.")
    return _unknown(place, writable)


def _unknown(place: str, known: Sequence[str], what: str = "field") -> ToolError:
    remedy = did_you_mean(place.rpartition(".")[2], known)
    return ToolError(f"{place}: the page has no such {what}: {remedy}")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about a name that a page does not have."""
    return texts.did_you_mean(name, known, f"there is {', '.join(known) or 'none'}.")


def _error_lines(form: Any, place: str) -> Iterator[str]:
    for name, errors in form.errors.items():
        path = ".".join(part for part in (place, name) if part and part != NON_FIELD_ERRORS)
        yield from (f"{path}: {message}" if path else str(message) for message in errors)


def _described_fields(adminform: Any) -> dict[str, Any]:
    form = adminform.form
    writable = _writable(adminform)
    read_only = [name for name, shown in values.shown_fields(adminform) if shown.is_readonly]
    fields = {name: _described_field(name, form.fields[name]) for name in writable}
    required = [name for name in writable if form.fields[name].required]
    described = {"fields": fields, "required": required, "read_only": read_only}
    return {name: member for name, member in described.items() if member}


def _described_field(name: str, form_field: Any) -> dict[str, Any]:
    try:
        schema = dict(texts.resolved(field_argument(name, form_field).schema))
    except ConfigurationError:
        schema = {"description": str(form_field.help_text)}
    if isinstance(form_field, forms.FileField):
        help_text = " ".join(filter(None, [schema.get("description"), FILE["description"]]))
        schema = {**FILE, "title": schema.get("title"), "description": help_text}
    if isinstance(form_field, forms.ModelChoiceField):
        model = getattr(form_field.queryset, "model", None)
        schema["of"] = None if model is None else model._meta.label
    return {key: value for key, value in schema.items() if value not in (None, "")}


def _described_inline(name: str, inline: Any, reads_only: bool) -> dict[str, Any]:
    blank = _blank_row(inline)
    row = next(iter(inline), None) if blank is None else blank
    formset = inline.formset
    described = {
        "name": name,
        "of": formset.model._meta.label,
        "may": {
            "add": bool(inline.has_add_permission and not reads_only),
            "change": bool(inline.has_change_permission and not reads_only),
            "delete": bool(inline.has_delete_permission and formset.can_delete and not reads_only),
        },
        "min": formset.min_num or None,
        "max": formset.max_num if formset.max_num < 1000 else None,
        **({} if row is None else _described_fields(row)),
    }
    return {key: value for key, value in described.items() if value is not None}
