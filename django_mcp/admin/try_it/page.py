"""The page that tries a component: its forms, and the steps of a call.

A step is a post of one of its buttons. A browser with the script of the page reads the messages
while they come, as lines of JSON; without it, it waits for the whole page.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from django import forms
from django.http import HttpRequest, QueryDict
from django.middleware.csrf import get_token
from django.template.loader import render_to_string
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from django_mcp import registry
from django_mcp.admin import server_page
from django_mcp.admin.try_it import app_view, calls, rendering, snippets
from django_mcp.admin.try_it.calls import Message
from django_mcp.admin.try_it.conversation import Conversation, Step, Tried, keep_tried, tried_calls
from django_mcp.admin.try_it.forms import (
    ACTIONS,
    Question,
    SchemaForm,
    are_valid,
    questions_of,
)
from django_mcp.admin.try_it.members import MISSING
from django_mcp.admin.try_it.targets import TARGETS
from django_mcp.core.auth.base import beginning_of
from django_mcp.core.protocol.limits import natural
from django_mcp.registry import Entry
from django_mcp.runtime import pools
from django_mcp.runtime.around import tenants

ARGUMENTS = "arguments"
AS_JSON = "json"
"""The parameter of the URL that makes all arguments one field."""
AGAIN = "again"
"""The parameter with the number of a tried call: its arguments are filled in."""
FOLDER = "admin/django_mcp/component"


class ScopesForm(forms.Form):
    """The scopes of the call, of those that the component needs."""

    scopes = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)

    def __init__(self, names: Sequence[str], data: QueryDict | None, chosen: Sequence[str]) -> None:
        super().__init__(data, initial={"scopes": chosen})
        field = self.fields["scopes"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(name, name) for name in names]


class TryPage:
    """One request of the page."""

    def __init__(self, request: HttpRequest, entry: Entry) -> None:
        self.request = request
        self.entry = entry
        self.server = entry.server
        self.tenant = tenants.of_request(request)
        self.target = TARGETS[type(entry.component)](entry)
        self.as_json = AS_JSON in request.GET
        self.conversation: Conversation | None = None
        self.form: SchemaForm | None = None
        self.scopes: ScopesForm | None = None
        self.questions: list[Question] = []

    # The steps.

    def prepare(self) -> list[Step]:
        """Read a posted form, and return the requests to send; none where there is an error."""
        data = self.request.POST
        if "run" in data:
            return self._begin()
        token = data.get("conversation", "")
        self.conversation = Conversation.from_token(token, self._user, self.entry.identity)
        if self.conversation is None:
            return []
        return self._continue(self.conversation)

    def _begin(self) -> list[Step]:
        form = SchemaForm(self._schema, self.request.POST, self.request.FILES, name=ARGUMENTS)
        self.form = form
        self.scopes = ScopesForm(self.needed_scopes, self.request.POST, ())
        if not (form.is_valid() and self.scopes.is_valid()):
            return []
        values = form.value()
        if not isinstance(values, dict) and values is not MISSING:
            form.add_error(ARGUMENTS, _("The arguments are a JSON object."))
            return []
        self.conversation = Conversation(
            user=self._user,
            component=self.entry.identity,
            method=self.target.method,
            params=self.target.params(values),
            scopes=self.scopes.cleaned_data["scopes"],
        )
        keep_tried(self.request, self.entry.identity, self.conversation.params)
        return [self.conversation.begin()]

    def _continue(self, conversation: Conversation) -> list[Step]:
        data = self.request.POST
        if "look" in data:
            return [conversation.look()]
        if "stop" in data and conversation.task is not None:
            return conversation.cancel()
        action = data.get("answer")
        if action not in ACTIONS:
            return []
        posted = data if action == ACTIONS[0] else None
        self.questions = questions_of(conversation.questions, posted)
        if posted is not None and not are_valid(self.questions):
            return []
        answers = {question.key: question.response(action) for question in self.questions}
        return conversation.answer(answers)

    async def messages(self, steps: Sequence[Step]) -> AsyncGenerator[Message, None]:
        """Send the requests; yield each message, and keep the state of the call."""
        assert self.conversation is not None
        scopes = self.conversation.scopes
        caller = calls.caller_of(self.request, self.server, scopes, tenant=self.tenant)
        for step in steps:
            async with aclosing(calls.exchange(self.server, caller, *step)) as exchanged:
                async for message in exchanged:
                    self.conversation = self.conversation.add(message)
                    yield message
        self.conversation = self.conversation.after_response()
        self.questions = questions_of(self.conversation.questions)

    async def run(self, steps: Sequence[Step]) -> None:
        async with aclosing(self.messages(steps)) as messages:
            async for _message in messages:
                pass

    async def lines(self, steps: Sequence[Step]) -> AsyncGenerator[bytes, None]:
        """Yield the lines for the page's script: the messages, then the new parts of the page."""
        if steps:
            async with aclosing(self.messages(steps)) as messages:
                async for message in messages:
                    yield _line(_event(message))
        yield _line(await pools.run_hook(self._parts))

    def _parts(self) -> dict[str, Any]:
        """The new parts of the page, and a selector for the next focus."""
        context = self.context
        parts: dict[str, Any] = {"type": "page", "focus": ""}
        if self.form is not None:
            parts["form"] = render_to_string(f"{FOLDER}/try_form.html", context)
            parts["has_errors"] = bool(self.form.errors)
            if self.form.errors:
                parts["focus"] = "[aria-invalid]"
        parts["result"] = render_to_string(f"{FOLDER}/try_result.html", context)
        return parts

    # Data for the templates.

    @property
    def context(self) -> dict[str, Any]:
        conversation = self.conversation
        form = self.form
        if form is None:
            form = SchemaForm(self._schema, name=ARGUMENTS, initial=self._initial)
        shown = None
        if conversation is not None and conversation.messages:
            is_over = conversation.status_call is None
            show = rendering.shown if is_over else rendering.unfinished
            shown = show(conversation.response)
            if form.is_bound and shown.tone == "error":
                for text in (shown.text, *(block.text for block in shown.blocks)):
                    form.add_problems(text)
        chosen = self.needed_scopes if conversation is None else conversation.scopes
        sent_and_received = () if conversation is None else conversation.messages
        return {
            "entry": self.entry,
            "form": form,
            "scopes": self.scopes or ScopesForm(self.needed_scopes, None, chosen),
            "needed_scopes": self.needed_scopes,
            "as_json": self.as_json,
            "conversation": conversation,
            "token": self._token,
            "shown": shown,
            "view": app_view.of_call(self.entry, conversation),
            "view_url": self.request.path.removesuffix("try/") + "view/",
            "hint": self._hint if shown is not None and shown.tone == "error" else "",
            "questions": self.questions,
            "has_only_pages": all(question.form is None for question in self.questions),
            "messages_shown": [rendering.shown_message(each) for each in sent_and_received],
            "copies": self._copies,
            "tried": self.tried,
            "csrf_token_value": self._csrf_token,
            "action": self.request.get_full_path(),
            "username": self.request.user.get_username(),
        }

    @cached_property
    def needed_scopes(self) -> list[str]:
        return sorted(self.entry.component.scopes | self.server.scopes)

    @cached_property
    def tried(self) -> list[Tried]:
        return tried_calls(self.request, self.entry.identity)

    @property
    def _copies(self) -> list[tuple[str, str]]:
        """The call as text to copy: a heading, and the text."""
        conversation = self.conversation
        if conversation is None or not conversation.messages:
            return []
        entry = self.entry
        call = (conversation.method, conversation.params)
        has_token = not all(
            getattr(item, "accepts_all", False) for item in registry.authenticators(self.server)
        )
        command = snippets.curl(entry, self._url, *call, has_token=has_token)
        test = snippets.test(entry, *call, conversation.scopes, conversation.response)
        copies = [("curl", command), (_("Test"), test)]
        return [(heading, text) for heading, text in copies if text]

    @property
    def _url(self) -> str:
        request = self.request
        path = f"/{registry.path(self.server).strip('/')}"
        return server_page.url_of(self.server, request) or request.build_absolute_uri(path)

    @property
    def _token(self) -> str:
        conversation = self.conversation
        is_open = conversation is not None and conversation.goes_on
        return conversation.to_token() if conversation is not None and is_open else ""

    @property
    def _user(self) -> str:
        key = str(self.request.user.pk)
        return f"{beginning_of(self.tenant)}{key}" if self.tenant else key

    @property
    def _schema(self) -> Any:
        return {"title": _("Arguments")} if self.as_json else self.target.schema

    @property
    def _initial(self) -> Any:
        if self.conversation is not None:
            return self.target.values(self.conversation.params)
        again = natural(self.request.GET.get(AGAIN, ""))
        if again is not None and again < len(self.tried):
            return self.target.values(self.tried[again].params)
        return {} if self.as_json else MISSING

    @cached_property
    def _csrf_token(self) -> str:
        return get_token(self.request)

    @property
    def _hint(self) -> str:
        """Why the component may not exist for this user."""
        if self.entry.is_switched_off:
            return _("It is switched off, so it does not exist for clients.")
        permission = self.entry.component.permission
        if isinstance(permission, str) and not self.request.user.has_perm(permission):
            text = _("You do not have the permission %(name)s, so it does not exist for you.")
            return text % {"name": permission}
        return ""


def _line(event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"


def _event(message: Message) -> dict[str, Any]:
    """Return a message for the script."""
    event: dict[str, Any] = {"type": "message", **rendering.as_event(message)}
    if message.body.get("method") == "notifications/progress":
        params = message.body.get("params") or {}
        event["progress"] = {name: params.get(name) for name in ("progress", "total", "message")}
    return event
