"""A browser that works with the pages of an admin: it reads their HTML, fills in, and sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.test import Client
from django.urls import reverse

from django_mcp.modeladmin.html_forms import HtmlForm, _Reader

Values = Mapping[str, Any]
Rows = Mapping[str, list[dict[str, Any]]]


class NoInput(Exception):
    """The page has no input for a value."""


class Browser:
    """The pages of one admin, for one user."""

    def __init__(self, site: str, user: Any) -> None:
        self.site = site
        self.client = Client(raise_request_exception=False)
        self.client.force_login(user)

    def url(self, model: Any, route: str, *args: Any) -> str:
        options = model._meta
        return reverse(f"{self.site}:{options.app_label}_{options.model_name}_{route}", args=args)

    def save(self, model: Any, pk: Any, values: Values, rows: Rows) -> Any:
        """Open the page of an object, fill it in, and return the outcome."""
        url = self.url(model, "add") if pk is None else self.url(model, "change", pk)
        shown = self.client.get(url)
        form = form_with(shown, "_save")
        if form is None:
            return "refused"
        data = {name: [*each.values] for name, each in form.inputs.items()}
        try:
            for name, value in values.items():
                _fill(data, name, value)
            places = self._fill_rows(data, rows)
        except NoInput:
            return "refused"
        sent = self.client.post(url, {**data, "_save": ["Save"]})
        if sent.status_code == 302:
            return "saved"
        return "refused" if sent.status_code != 200 else sorted(errors(sent.context, places))

    def _fill_rows(self, data: dict[str, list[Any]], rows: Rows) -> dict[str, str]:
        """Fill in the rows of inlines; return the place of each form among the rows."""
        places: dict[str, str] = {}
        for prefix, given in rows.items():
            if f"{prefix}-INITIAL_FORMS" not in data:
                raise NoInput
            initial = int(data[f"{prefix}-INITIAL_FORMS"][0])
            keys = [data[f"{prefix}-{index}-id"][0] for index in range(initial)]
            new = initial
            for place, row in enumerate(given):
                if (pk := row.get("pk")) is None:
                    index = new
                    new += 1
                    if new > int(data[f"{prefix}-MAX_NUM_FORMS"][0]):
                        raise NoInput  # The page has no link to add a row.
                    _add_row(data, prefix, index)
                else:
                    index = keys.index(str(pk))
                places[f"{prefix}-{index}"] = f"{prefix}[{place}]"
                for name, value in row.items():
                    if name == "delete":
                        _fill(data, f"{prefix}-{index}-DELETE", True)
                    elif name != "pk":
                        _fill(data, f"{prefix}-{index}-{name}", value)
            total = data[f"{prefix}-TOTAL_FORMS"]
            total[:] = [str(max(int(total[0]), new))]
        return places

    def delete(self, model: Any, pk: Any) -> Any:
        url = self.url(model, "delete", pk)
        if form_with(self.client.get(url), None, hidden="post") is None:
            return "refused"
        return "saved" if self.client.post(url, {"post": "yes"}).status_code == 302 else "refused"

    def run_action(self, model: Any, action: str, pks: list[Any]) -> Any:
        url = self.url(model, "changelist")
        shown = self.client.get(url)
        form = form_with(shown, None, hidden="select_across")
        if form is None or action not in form.inputs["action"].choices:
            return "refused"
        listed = {row.pk for row in shown.context["cl"].result_list}
        if not {*pks} <= listed:
            return "refused"
        data = {"action": [action], "_selected_action": pks, "index": ["0"], "select_across": ["0"]}
        sent = self.client.post(url, data)
        if sent.status_code == 200:
            page = form_with(sent, None, hidden="post")
            if page is None:
                return "refused"
            again = {name: each.values for name, each in page.inputs.items()}
            sent = self.client.post(url, again)
        return "saved" if sent.status_code == 302 else "refused"

    def search(self, model: Any, query: Mapping[str, Any]) -> Any:
        shown = self.client.get(self.url(model, "changelist"), query)
        if shown.status_code == 302:
            return "no such list"
        if shown.status_code != 200:
            return "refused"
        return [row.pk for row in shown.context["cl"].result_list]


def form_with(response: Any, button: str | None, *, hidden: str | None = None) -> HtmlForm | None:
    """Return the form of a page that has a button or an input, as HTML has it."""
    if response.status_code != 200:
        return None
    reader = _Reader()
    reader.feed(response.content.decode())
    for form in reader.forms:
        if (button is None or button in form.buttons) and (hidden is None or hidden in form.inputs):
            return form
    return None


def _add_row(data: dict[str, list[Any]], prefix: str, index: int) -> None:
    """Copy the inputs of an empty row, as the script of the page does."""
    empty = f"{prefix}-__prefix__-"
    for name in [name for name in data if empty in name]:
        data.setdefault(name.replace("__prefix__", str(index)), [*data[name]])


def _fill(data: dict[str, list[Any]], name: str, value: Any) -> None:
    if f"{name}_0" in data:
        day, _, time = (value or "T").rstrip("Z").partition("T")
        data[f"{name}_0"] = [day]
        data[f"{name}_1"] = [time]
    elif name not in data:
        raise NoInput
    elif isinstance(value, bool):
        data[name] = ["on"] if value else []
    elif isinstance(value, list):
        data[name] = value
    else:
        data[name] = ["" if value is None else str(value)]


def errors(context: Any, places: Mapping[str, str]) -> Iterator[str]:
    """Yield the errors that a page shows, each with its field."""
    yield from _lines(context["adminform"].form, "")
    for inline in context["inline_admin_formsets"]:
        formset = inline.formset
        yield from (f"{formset.prefix}: {message}" for message in formset.non_form_errors())
        for form in formset.forms:
            yield from _lines(form, places.get(form.prefix, f"{formset.prefix}[pk=?]"))


def _lines(form: Any, place: str) -> Iterator[str]:
    for name, messages in form.errors.items():
        path = ".".join(part for part in (place, name) if part and part != NON_FIELD_ERRORS)
        yield from (f"{path}: {message}" if path else str(message) for message in messages)
