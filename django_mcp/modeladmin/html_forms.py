"""The form of a page that an action returns, read from its HTML as a browser does.

Such a page may be of any template: its inputs and buttons are all that the next request needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from django.utils.datastructures import MultiValueDict

from django_mcp.core.protocol.errors import ToolError

MAX_TEXT = 2_000
BUTTONS = ("submit", "image", "button", "reset")
NOT_TEXT = ("script", "style", "select", "textarea", "option")


@dataclass(slots=True)
class Input:
    """The values that a form sends under one name."""

    name: str
    kind: str
    values: list[str] = field(default_factory=list)
    """The values when the page is opened."""
    choices: dict[str, str] = field(default_factory=dict)
    is_required: bool = False
    is_multiple: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        if self.kind == "checkbox" and len(self.choices) < 2:
            schema: dict[str, Any] = {"type": "boolean"}
        elif self.choices:
            options = [{"const": key, "title": text} for key, text in self.choices.items()]
            schema = {"oneOf": options}
            if self.is_multiple:
                schema = {"type": "array", "items": schema}
        else:
            schema = FORMATS.get(self.kind, {"type": "string"})
        has_default = len(self.values) == 1 and self.kind != "file"
        return {**schema, **({"default": self.values[0]} if has_default else {})}


FILE: dict[str, Any] = {
    "type": "integer",
    "minimum": 0,
    "description": "The position of the file in files",
}
"""The schema of a value that is a file."""
FORMATS: Mapping[str, dict[str, Any]] = {
    "number": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "email": {"type": "string", "format": "email"},
    "file": FILE,
}


@dataclass(slots=True)
class HtmlForm:
    """A form of a page."""

    method: str
    action: str
    inputs: dict[str, Input] = field(default_factory=dict)
    buttons: dict[str, str] = field(default_factory=dict)
    """Names and values of the buttons that have a name."""
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())[:MAX_TEXT]

    @property
    def fields(self) -> dict[str, Input]:
        """The inputs that somebody fills in."""
        return {name: each for name, each in self.inputs.items() if each.kind != "hidden"}

    def sent(
        self, given: Mapping[str, Any], file_at: Callable[[str, Any], Any]
    ) -> tuple[MultiValueDict[str, Any], MultiValueDict[str, Any]]:
        """Return the data and the files of the form, filled in with ``given``; raises ToolError.

        ``file_at`` returns the file for a value.
        """
        fields = self.fields
        for name in given:
            if name not in fields and name not in self.buttons:
                raise ToolError(f"{name}: the page asks for {', '.join(fields) or 'nothing'}.")
        data: MultiValueDict[str, Any] = MultiValueDict()
        files: MultiValueDict[str, Any] = MultiValueDict()
        for name, field_input in self.inputs.items():
            if field_input.kind == "password":
                raise ToolError("The page asks for a password: open it in the browser.")
            if field_input.kind == "file":
                if given.get(name) is not None:
                    files[name] = file_at(name, given[name])
            else:
                data.setlist(name, _values(field_input, given.get(name, field_input.values)))
        data.update(self._pressed(given))
        return data, files

    def _pressed(self, given: Mapping[str, Any]) -> dict[str, str]:
        """The button that is pressed: the only one, or the one that is given."""
        chosen = {name: value for name, value in self.buttons.items() if given.get(name)}
        if not chosen and len(self.buttons) > 1:
            names = ", ".join(self.buttons)
            raise ToolError(f"The page has several buttons: give one of {names} as true.")
        return chosen or self.buttons


def _values(field: Input, value: Any) -> list[Any]:
    if isinstance(value, bool):
        on = next(iter(field.choices), "on")
        return [on] if value else []
    if isinstance(value, list | tuple):
        return [*value]
    return [] if value is None and field.kind in ("checkbox", "select") else [_text(value)]


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def of_page(html: str) -> HtmlForm | None:
    """Return the form that goes on with an action, or None."""
    reader = _Reader()
    reader.feed(html)
    forms = [each for each in reader.forms if each.method == "post"]
    return next(
        (each for each in forms if each.inputs.keys() & {"action", "_selected_action"}), None
    )


def text_of_page(html: str) -> str:
    """Return the text of the part of a page that is its content."""
    reader = _Reader()
    reader.feed(html)
    return " ".join(" ".join(reader.content).split())[:MAX_TEXT]


class _Reader(HTMLParser):
    """Collects the forms of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[HtmlForm] = []
        self.content: list[str] = []
        self._form: HtmlForm | None = None
        self._input: Input | None = None
        self._option: str | None = None
        self._button: str | None = None
        self._silent = 0
        self._is_in_content = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if attributes.get("id") == "content" or tag == "main":
            self._is_in_content = True
        if tag in NOT_TEXT:
            self._silent += 1
        if tag == "form":
            self._form = HtmlForm(
                attributes.get("method", "get").lower(), attributes.get("action", "")
            )
            self.forms.append(self._form)
        elif self._form is not None and tag in ("select", "textarea"):
            self.start_area(self._form, attributes, tag)
        elif self._form is not None and tag in STARTS:
            STARTS[tag](self, self._form, attributes)

    def handle_endtag(self, tag: str) -> None:
        if tag in NOT_TEXT:
            self._silent = max(self._silent - 1, 0)
        if tag == "form":
            self._form = None
        elif tag in ("select", "textarea"):
            area = self._input
            if area is not None and tag == "select" and not (area.values or area.is_multiple):
                area.values = [*area.choices][:1]
            elif area is not None and tag == "textarea":
                # As the standard of HTML says; templates of Django write this line break.
                text = "".join(area.values).replace("\r\n", "\n")
                area.values = [text.removeprefix("\n")]
            self._input = None
        elif tag == "option":
            self._option = None

    def handle_data(self, data: str) -> None:
        if self._option is not None and self._input is not None:
            self._input.choices[self._option] += data.strip()
        elif self._input is not None and self._input.kind == "textarea":
            self._input.values = [_text("".join(self._input.values)) + data]
        if not self._silent:
            if self._form is not None:
                self._form.texts.append(data)
            if self._is_in_content:
                self.content.append(data)

    def start_input(self, form: HtmlForm, attributes: dict[str, str]) -> None:
        name = attributes.get("name", "")
        kind = attributes.get("type", "text").lower()
        if not name or "disabled" in attributes:
            return
        if kind in BUTTONS:
            if kind in ("submit", "image"):
                form.buttons[name] = attributes.get("value", "")
            return
        default = "on" if kind in ("checkbox", "radio") else ""
        value = attributes.get("value", default)
        one = form.inputs.setdefault(name, Input(name, kind))
        one.is_required |= "required" in attributes
        if kind in ("checkbox", "radio"):
            one.is_multiple |= kind == "checkbox"
            one.choices[value] = attributes.get("aria-label", value)
            one.values += [value] if "checked" in attributes else []
        else:
            one.values.append(value)

    def start_button(self, form: HtmlForm, attributes: dict[str, str]) -> None:
        kind = attributes.get("type", "submit")
        if attributes.get("name") and kind == "submit":
            form.buttons[attributes["name"]] = attributes.get("value", "")

    def start_area(self, form: HtmlForm, attributes: dict[str, str], kind: str) -> None:
        name = attributes.get("name", "")
        self._input = Input(name, kind, is_required="required" in attributes)
        self._input.is_multiple = "multiple" in attributes
        if name and "disabled" not in attributes:
            form.inputs[name] = self._input

    def start_option(self, form: HtmlForm, attributes: dict[str, str]) -> None:
        if self._input is None:
            return
        self._option = attributes.get("value", "")
        self._input.choices[self._option] = ""
        if "selected" in attributes:
            self._input.values.append(self._option)


STARTS = {
    "input": _Reader.start_input,
    "button": _Reader.start_button,
    "option": _Reader.start_option,
}


def described(form: HtmlForm) -> dict[str, Any]:
    """Return the text, the fields and the buttons of a page, for the caller."""
    fields = form.fields
    required = [name for name, each in fields.items() if each.is_required]
    several = [*form.buttons] if len(form.buttons) > 1 else []
    members = {
        "text": form.text,
        "fields": {name: each.schema for name, each in fields.items()},
        "required": required,
        "buttons": several,
    }
    return {name: member for name, member in members.items() if member}
