"""The page on which a user answers what a running call asks, where the client cannot ask it.

The call is a task with ``answer_within``: it waits for input as any task does, and this page is its
client. Only the user of the call finds it; for everybody else, it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

from django import forms
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.html import escape
from django.views import View

from django_mcp import registry
from django_mcp.contrib.url_elicitation.links import DECLINE
from django_mcp.contrib.url_elicitation.views import OwnLink
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.tasks import Status, TaskEnded
from django_mcp.models import McpTask
from django_mcp.runtime.around import tenants
from django_mcp.runtime.pages import ProtectedPage
from django_mcp.tasks import store, submission

PREFIX = "answer"
"""Before the names of fields: that of a question may be that of a button."""


class QuestionView(ProtectedPage, LoginRequiredMixin, View):
    """Shows the first question without an answer; it leads to the next one, or to the last page."""

    template_name = "django_mcp_elicitation/form.html"

    def get(self, request: HttpRequest, *args: Any, task_id: str) -> HttpResponseBase:
        row = _own_row(request, task_id)
        if row is None:
            return TemplateResponse(request, OwnLink.invalid_template_name, status=404)
        key, question = _first_question(row)
        if question is None:
            return TemplateResponse(request, OwnLink.done_template_name, {"action": "accept"})
        return self._show(request, row, key, form_of(question)())

    def post(self, request: HttpRequest, *args: Any, task_id: str) -> HttpResponseBase:
        row = _own_row(request, task_id)
        if row is None:
            return TemplateResponse(request, OwnLink.invalid_template_name, status=404)
        key, question = _first_question(row)
        if question is None or request.POST.get("question") != key:
            return HttpResponseRedirect(request.path)
        if DECLINE in request.POST:
            _answer(row, key, {"action": "decline"})
            done = {"action": "decline"}
            return TemplateResponse(request, OwnLink.done_template_name, done)
        form = form_of(question)(request.POST)
        if not form.is_valid():
            return self._show(request, row, key, form)
        if question.get("mode") == "url":
            _answer(row, key, {"action": "accept"})
            return HttpResponseRedirect(question["url"])
        _answer(row, key, {"action": "accept", "content": content_of(form)})
        return HttpResponseRedirect(request.path)

    def _show(
        self, request: HttpRequest, row: McpTask, key: str, form: forms.Form
    ) -> HttpResponseBase:
        question = store.inputs_of(row)[key]["params"]
        server = registry.find(row.server)
        info = {} if server is None else server.info
        message = str(question.get("message", ""))
        if question.get("mode") == "url":
            message = f"{message} {question['url']}"
        shown = SimpleNamespace(server=info.get("title") or row.server, message=message)
        context = {"link": shown, "form": form, "question": key}
        return TemplateResponse(request, self.template_name, context)


def _own_row(request: HttpRequest, task_id: str) -> McpTask | None:
    """The call of this user with a page, at their tenant; None for any other."""
    row = store.get().own_row_here(task_id, str(request.user.pk))
    if row is None:
        return None
    facts = store.call_of(row)
    is_here = (facts.get("tenant") or "") == tenants.of_request(request)
    return row if is_here and "answered_for" in facts else None


def _first_question(row: McpTask) -> tuple[str, Json | None]:
    """The key and the parameters of the first question without an answer."""
    if row.status != Status.INPUT_REQUIRED:
        return "", None
    for key, item in store.inputs_of(row).items():
        if "method" in item:
            return key, item["params"]
    return "", None


def _answer(row: McpTask, key: str, result: Json) -> None:
    apply = partial(tasks.answer, responses={key: {"result": result}})
    with suppress(TaskEnded):  # It was cancelled, or its time was over, meanwhile.
        changed = store.get().change_here(row.pk, apply)
        if changed is not None:
            submission.follow(changed)


# The form.


def form_of(question: Json) -> type[forms.Form]:
    """Return the form class for the schema of a question; without fields for a page to visit."""
    schema = question.get("requestedSchema") or {}
    required = schema.get("required", ())
    fields = {
        name: _field(member, is_required=name in required)
        for name, member in schema.get("properties", {}).items()
    }
    return type("QuestionForm", (_Prefixed,), fields)


class _Prefixed(forms.Form):
    """A form with a prefix, and no attribute of it: a question may have a field of this name."""

    prefix = PREFIX


def _field(member: Json, *, is_required: bool) -> forms.Field:
    options: dict[str, Any] = {
        "label": member.get("title"),
        # Forms show a help text as HTML, and a description is text.
        "help_text": escape(member.get("description", "")),
        "initial": member.get("default"),
        "required": is_required,
    }
    choices = _choices(member)
    if member["type"] == "array":
        return forms.MultipleChoiceField(choices=choices, **options)
    if choices:
        empty = [] if is_required else [("", "")]
        return forms.ChoiceField(choices=[*empty, *choices], **options)
    return FIELDS[member["type"]](member, {k: v for k, v in options.items() if v is not None})


def _choices(member: Json) -> list[tuple[str, str]]:
    """The values and the labels of a choice, in each of the forms that schemas have."""
    source = member.get("items", member)
    for name in ("oneOf", "anyOf"):
        if name in source:
            return [(item["const"], item.get("title", item["const"])) for item in source[name]]
    values = source.get("enum", ())
    return [*zip(values, source.get("enumNames", values), strict=False)]


def _string(member: Json, options: dict[str, Any]) -> forms.Field:
    kind = member.get("format")
    if kind == "date":
        return forms.DateField(widget=forms.DateInput({"type": "date"}), **options)
    if kind == "date-time":
        return forms.DateTimeField(**options)
    kinds: Mapping[str, type[forms.CharField]] = {"email": forms.EmailField, "uri": forms.URLField}
    text_field = kinds.get(str(kind), forms.CharField)
    least = member.get("minLength")
    return text_field(min_length=least, max_length=member.get("maxLength"), **options)


def _number(field: type[forms.IntegerField], member: Json, options: dict[str, Any]) -> forms.Field:
    return field(min_value=member.get("minimum"), max_value=member.get("maximum"), **options)


def _boolean(member: Json, options: dict[str, Any]) -> forms.Field:
    # A box without a mark is the answer no.
    return forms.BooleanField(**{**options, "required": False})


FIELDS: Mapping[str, Callable[[Json, dict[str, Any]], forms.Field]] = {
    "string": _string,
    "integer": partial(_number, forms.IntegerField),
    "number": partial(_number, forms.FloatField),
    "boolean": _boolean,
}
"""The field of each type that the schema of a form has."""


def content_of(form: forms.Form) -> dict[str, Any]:
    """Return the answers as JSON, without those that are left out."""
    content = {}
    for name, value in form.cleaned_data.items():
        if value is not None and value != "":
            content[name] = value.isoformat() if hasattr(value, "isoformat") else value
    return content
