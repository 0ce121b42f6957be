"""One call of the workbench, from its first request to its end, over several requests of the page.

The page carries it, encrypted and bound to its user, so that any worker answers the next step. The
calls that a user has tried last are in their session: encrypted, and gone with the logout.

| state | meaning | transitions |
|---|---|---|
| asked | the call requests input (``questions``) | answers: the call is sent again |
| task | the call continues as a task (``task``) | a look at the task; answers are sent to it |
| unfinished | the call runs on, and is no task (``status_call``) | a look at its status |
| ended | there is a result or an error | a new call |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.sessions.backends import signed_cookies
from django.http import HttpRequest
from django.utils import timezone

from django_mcp.admin.try_it.calls import Message
from django_mcp.core.protocol.errors import Json
from django_mcp.runtime.signing import DjangoSigner
from django_mcp.tasks.call_status import STATUS_CALL

PURPOSE = "workbench"
MAX_KEPT = 200_000
"""Characters of the earlier messages that a page carries; with more, it carries none of them."""
STATUS_INTERVAL_MS = 5000
"""Time between two calls of a status tool: each is counted."""
TASK_INTERVAL_MS = 1000
TRIED = "django_mcp_tried"
TRIED_PURPOSE = "tried calls"
MAX_TRIED = 20
"""Calls of all components together."""
MAX_TRIED_LENGTH = 20_000
"""Characters of them: calls with long arguments leave room for fewer."""
ACTIVE = frozenset({"working", "input_required"})
"""The statuses of a task that goes on."""


class Step(NamedTuple):
    """A request that the page sends."""

    method: str
    params: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A call, and its state so far."""

    user: str
    """The primary key of the user, as a string, after the tenant where the site has tenants."""
    component: str
    """The identity of the component."""
    method: str
    params: Json
    scopes: Sequence[str] = ()
    messages: Sequence[Message] = ()
    request_state: str | None = None
    questions: Mapping[str, Json] = field(default_factory=dict)
    task: str | None = None
    status_call: Json | None = None
    interval_ms: int = 0
    """Time until the page looks again; 0 where it does not."""

    @property
    def goes_on(self) -> bool:
        return bool(self.questions or self.task or self.status_call)

    @property
    def response(self) -> Json:
        """The last response."""
        return self.messages[-1].body if self.messages else {}

    # The next step.

    def begin(self) -> Step:
        return Step(self.method, self.params)

    def answer(self, responses: Json) -> list[Step]:
        """Return the requests that bring the answers of the user."""
        if self.task is not None:
            update = {"taskId": self.task, "inputResponses": responses}
            return [Step("tasks/update", update), self.look()]
        params = {**self.params, "inputResponses": responses}
        if self.request_state is not None:
            params["requestState"] = self.request_state
        return [Step(self.method, params)]

    def look(self) -> Step:
        """Return the request that asks how the call goes on."""
        if self.task is not None:
            return Step("tasks/get", {"taskId": self.task})
        return Step("tools/call", self.status_call or {})

    def cancel(self) -> list[Step]:
        return [Step("tasks/cancel", {"taskId": self.task}), self.look()]

    # The state after it.

    def add(self, message: Message) -> Conversation:
        """Return the conversation with one more message; a repeated look replaces the last one."""
        messages = [*self.messages]
        if message.direction == "sent":
            sent = [index for index, item in enumerate(messages) if item.direction == "sent"]
            if sent and messages[sent[-1]] == message:
                del messages[sent[-1] :]
        return replace(self, messages=(*messages, message))

    def after_response(self) -> Conversation:
        """Return the conversation in the state after its last response."""
        result = self.response.get("result")
        if not isinstance(result, dict):
            return self._ended()
        if result.get("resultType") == "input_required":
            return replace(
                self._ended(),
                questions=result.get("inputRequests") or {},
                request_state=result.get("requestState"),
            )
        if "taskId" in result:
            return self._with_task(result)
        status_call = (result.get("_meta") or {}).get(STATUS_CALL)
        if status_call is not None:
            return replace(self._ended(), status_call=status_call, interval_ms=STATUS_INTERVAL_MS)
        return self._ended()

    def _with_task(self, task: Json) -> Conversation:
        if task["status"] not in ACTIVE:
            return self._ended()
        questions = task.get("inputRequests") or {}
        interval = task.get("pollIntervalMs") or TASK_INTERVAL_MS
        return replace(
            self._ended(),
            task=task["taskId"],
            questions=questions,
            # A page that asks something stays as it is.
            interval_ms=0 if questions else interval,
        )

    def _ended(self) -> Conversation:
        return replace(
            self, questions={}, request_state=None, task=None, status_call=None, interval_ms=0
        )

    # The page.

    def to_token(self) -> str:
        facts = asdict(self)
        if len(json.dumps(facts["messages"])) > MAX_KEPT:
            facts["messages"] = facts["messages"][-1:]
        return DjangoSigner().sign(PURPOSE, json.dumps(facts))

    @classmethod
    def from_token(cls, token: str, user: str, component: str) -> Conversation | None:
        """Return the conversation of a page; None for somebody else's, or without a token."""
        text = DjangoSigner().unsign(PURPOSE, token)
        if text is None:
            return None
        facts = json.loads(text)
        facts["messages"] = [Message(*message) for message in facts["messages"]]
        conversation = cls(**facts)
        is_own = (conversation.user, conversation.component) == (user, component)
        return conversation if is_own else None


class Tried(NamedTuple):
    """A call that was tried."""

    component: str
    """The identity of the component."""
    params: Json
    at: str
    """In ISO format."""

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.at)

    @property
    def summary(self) -> str:
        """The arguments in a line."""
        values = self.params.get("arguments", self.params.get("uri"))
        return values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)


def keep_tried(request: HttpRequest, component: str, params: Json) -> None:
    """Keep a call, as the newest one. A session in a cookie has no room for it."""
    if isinstance(request.session, signed_cookies.SessionStore):
        return
    call = (component, params)
    others = [item for item in _all_tried(request) if (item.component, item.params) != call]
    kept = [Tried(component, params, timezone.now().isoformat()), *others][:MAX_TRIED]
    while len(text := json.dumps(kept, default=str)) > MAX_TRIED_LENGTH:
        kept.pop()
    request.session[TRIED] = DjangoSigner().sign(TRIED_PURPOSE, text)


def tried_calls(request: HttpRequest, component: str) -> list[Tried]:
    """Return the calls of a component that were tried, the newest first."""
    return [item for item in _all_tried(request) if item.component == component]


def _all_tried(request: HttpRequest) -> list[Tried]:
    text = DjangoSigner().unsign(TRIED_PURPOSE, request.session.get(TRIED, ""))
    stored: list[Any] = json.loads(text) if text else []
    return [Tried(*item) for item in stored]
