"""form_view: a Django form that the user fills in, within the conversation.

Two tools belong to it. The model calls the one that shows the form, and may fill in fields.
The page calls the other one, with the user's entries; the form validates them on the server.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from django import forms
from django.template.loader import render_to_string

from django_mcp import registry
from django_mcp.core.components.base import OPTIONS, ConfigurationError
from django_mcp.core.components.declaration import line_of
from django_mcp.core.components.responses import Response, ToolResponse
from django_mcp.core.components.tool import ToolComponent, ToolOptions, tool_component
from django_mcp.core.frame.frame import Frame
from django_mcp.core.server.server import Server
from django_mcp.forms import tool as form_tools
from django_mcp.forms.tool import FormKwargs, FormRunner, InvalidForm, OnValid
from django_mcp.ui.base import FRAGMENT
from django_mcp.ui.views import TemplateView, template_view

FORM = "django_mcp/form.html"
DONE = "django_mcp/form_done.html"

SHOWN = (
    "The user sees the form, fills it in and submits it. Nothing is saved yet. Where no form is "
    "shown, ask the user for the values and call {submit}."
)
OF_SUBMIT = frozenset({"destructive", "idempotent", "open_world"})
"""Options of the tool that the page calls, as are those of other extensions."""
OF_VIEWS = frozenset({"ui", "app_only"})
OF_BOTH = frozenset({"permission", "scopes", "when_denied", "group"})


def form_view(
    form_class: type[forms.BaseForm],
    *,
    on_valid: OnValid | None = None,
    form_kwargs: FormKwargs | None = None,
    template: str | None = None,
    fragment: str = FORM,
    done: str = DONE,
    uri: str | None = None,
    csp: Mapping[str, Iterable[str]] | None = None,
    prefers_border: bool | None = True,
    server: Server | None = None,
    **options: Unpack[ToolOptions],
) -> TemplateView:
    """Register a Django form as a view, on the default server unless ``server`` is another.

    ``TicketForm`` becomes the tool ``ticket_form``, which shows the form with the arguments as
    initial values, and the tool ``submit_ticket``, which only the view calls. ``fragment`` is the
    template of the form, and ``done`` that of the result. Options of ``tool`` apply to both;
    ``on_valid`` and ``form_kwargs`` are those of ``form_tool``. Raises ConfigurationError, such as
    for forms with files.
    """
    form_tools.check_form(form_class, on_valid, form_kwargs)
    target = registry.server_or_default(server, f"form_view({form_class.__qualname__})")
    check_fields(form_class)
    name = form_tools.default_name(form_class)
    given: dict[str, Any] = dict(options)
    view = template_view(
        template,
        fragment=done,
        uri=uri or f"ui://forms/{name}",
        title=given.get("title"),
        csp=csp,
        prefers_border=prefers_border,
    )
    own = given.pop("name", None) or f"{name}_form"
    save = on_valid or form_tools.save
    runner = FormRunner(form_class, save, form_kwargs or form_tools.no_kwargs)
    tools = _FormTools(runner, view, fragment, f"submit_{own.removesuffix('_form')}")
    module = form_class.__module__
    for component in tools.components(form_class, own, given):
        find_line = partial(line_of, form_class)
        target.components.add(replace(component, module=module, find_line=find_line))
    return view


class _FormTools:
    """The two tools of a form."""

    def __init__(self, runner: FormRunner, view: TemplateView, fragment: str, submit: str) -> None:
        self._runner = runner
        self._view = view
        self._fragment = fragment
        self._submit = submit

    def components(
        self, form_class: type[Any], name: str, options: Mapping[str, Any]
    ) -> list[ToolComponent]:
        submitted = OF_SUBMIT | OPTIONS.of(ToolComponent.kind).keys() - OF_VIEWS
        shared = {key: value for key, value in options.items() if key in OF_BOTH}
        of_submit = {key: value for key, value in options.items() if key in submitted}
        of_show = {key: value for key, value in options.items() if key not in submitted}
        initial_schema = form_tools.input_schema(form_class, has_kwargs=True)
        described: Any = {
            "name": name,
            "description": inspect.cleandoc(form_class.__doc__ or "") or "Show a form to the user.",
            "input_schema": {**initial_schema, "required": []},
            "read_only": True,
            "ui": self._view,
            **of_show,
        }
        submitting: Any = {
            "name": self._submit,
            "description": f"Submit the form of {name}, with the values that the user entered.",
            "input_schema": _sent_schema(form_class),
            "ui": self._view,
            "app_only": True,
            **shared,
            **of_submit,
        }
        show = tool_component(self.show, **described)
        return [show, tool_component(self.submit, **submitting)]

    def show(self, arguments: dict[str, Any], frame: Frame) -> ToolResponse:
        form = self._runner.filled_in(arguments, frame)
        text = SHOWN.format(submit=self._submit)
        return Response.tool().text(text).meta({FRAGMENT: self._rendered(form)})

    def submit(self, sent: dict[str, Any], frame: Frame) -> Any:
        try:
            return self._runner.submit(sent, frame)
        except InvalidForm as error:
            html = self._rendered(error.form)
            return Response.tool().error(str(error)).meta({FRAGMENT: html})

    def _rendered(self, form: Any) -> str:
        context = {"form": form, "submit": self._submit, "title": self._view.title}
        return render_to_string(self._fragment, context)


def check_fields(form_class: type[Any]) -> None:
    """Raise ConfigurationError for a form with files, or with fields that no form tool has."""
    for name, field in form_class.base_fields.items():
        if isinstance(field, forms.FileField):
            raise ConfigurationError(
                f"{form_class.__qualname__} has the file field {name!r}, and a view can send no "
                "files: hosts pass JSON on. Leave it out, or give users a page of the site"
            )


def _sent_schema(form_class: Any) -> dict[str, Any]:
    """The schema of a browser's values, which the form itself validates."""
    names = [
        html_name
        for name, field in form_class.base_fields.items()
        if form_tools.is_filled_in(field)
        for html_name in form_tools.html_names(field, name)
    ]
    as_sent: dict[str, Any] = {"description": "The value as a browser sends it"}
    return {
        "type": "object",
        "properties": dict.fromkeys(names, as_sent),
        "additionalProperties": True,
    }
