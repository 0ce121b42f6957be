"""``elicit_page``: a handler sends its user to a page of the site and receives the answer.

The steps are written once, as a generator; a synchronous and an asynchronous function take them.

| state | meaning | who moves it |
|---|---|---|
| offered | the client has the link; its user has not agreed to visit the page | the client |
| agreed | the handler, or the repeated call, waits for the answer | the user, on the page |
| answered | the answer is stored, and the handler goes on with it | nobody |
| closed | the user has declined or cancelled in the client: the link is not valid | nobody |

A link expires in each state; the handler then ends with a TimeoutError, or its client gives up.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pkgutil import resolve_name
from secrets import token_urlsafe
from typing import Any

from asgiref.sync import sync_to_async
from django import forms
from django.db import connections
from django.utils import timezone
from django.utils.datastructures import MultiValueDict

from django_mcp.contrib.url_elicitation import links
from django_mcp.contrib.url_elicitation.links import DECLINE, Link
from django_mcp.contrib.url_elicitation.models import (
    PageAnswer,
    current_formats,
    restored_files,
    restored_formats,
)
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.frame.client import input_requests, request_state
from django_mcp.core.frame.client.input_requests import ElicitResult, InputRequest
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import Json, ToolError
from django_mcp.runtime import pools
from django_mcp.runtime.pages import absolute_url

ID = re.compile(r"[\w-]{22}", re.ASCII)
"""Sixteen random bytes, in base64."""
READY_PAGE = "django_mcp_elicitation:form"
POLL_INTERVAL = 0.5
"""Seconds between two looks for the answer."""
MAX_WAIT = 30.0
"""Seconds that a repeated call waits for the answer; the client then asks its user again.
Longer, and clients with a timeout of a minute would end the call."""

Page = type[forms.BaseForm] | str


def elicit_page(
    frame: Frame,
    message: str,
    page: Page,
    *,
    key: str | None = None,
    timeout: float | None = None,
) -> ElicitResult[Any]:
    """Send the user to a page of the site, and return the answer.

    ``page`` is a form class, or the name of a URL pattern with a view that uses
    ``ElicitationMixin``. The content is the cleaned data of the form, or what the view completed
    with. ``message`` is cut to 1000 characters. ``key`` distinguishes two pages with the same
    message; ``timeout`` is in seconds, by default 300. Raises ToolError for a caller without a
    user, MissingClientCapability and TimeoutError.
    """
    steps = _steps(frame, message, page, key, timeout)
    client = frame.client
    outcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as stop:
            result: ElicitResult[Any] = stop.value
            return result
        match step:
            case Request():
                outcome = client.ask(**{step.key: step.request})[step.key]
            case Query():
                outcome = pools.call_in_store_pool(step.function)
            case OnHandlersThread():
                outcome = step.function()
            case Pause():
                frame.cancellation.wait(POLL_INTERVAL)
                frame.cancellation.raise_if_requested()
            case Notify():
                client.notify(step.method, step.params)


async def aelicit_page(
    frame: Frame,
    message: str,
    page: Page,
    *,
    key: str | None = None,
    timeout: float | None = None,
) -> ElicitResult[Any]:
    """``elicit_page`` for async handlers."""
    steps = _steps(frame, message, page, key, timeout)
    client = frame.client
    outcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as stop:
            result: ElicitResult[Any] = stop.value
            return result
        match step:
            case Request():
                outcome = (await client.aask(**{step.key: step.request}))[step.key]
            case Query():
                outcome = await pools.run_in_store_pool(step.function)
            case OnHandlersThread():
                outcome = await sync_to_async(step.function)()
            case Pause():
                await asyncio.sleep(POLL_INTERVAL)
                frame.cancellation.raise_if_requested()
            case Notify():
                await client.anotify(step.method, step.params)


@dataclass(frozen=True, slots=True)
class Request:
    """Send an input request, and go on with the result."""

    key: str
    request: InputRequest[Any]


@dataclass(frozen=True, slots=True)
class Query:
    """Call a function that uses the database, and go on with its result."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class OnHandlersThread:
    """Call a function where the handler uses the database."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait a moment."""


@dataclass(frozen=True, slots=True)
class Notify:
    """Send a notification."""

    method: str
    params: Json


Step = Request | Query | OnHandlersThread | Pause | Notify
Steps = Generator[Step, Any, ElicitResult[Any]]


def _steps(frame: Frame, message: str, page: Page, key: str | None, timeout: float | None) -> Steps:
    """The steps of one elicitation; the revision of the client decides how it is asked."""
    if not getattr(frame.user, "is_authenticated", False):
        raise ToolError("This needs a page that only a user who is logged in can visit.")
    allowed = input_requests.RESPONSE_TIMEOUT if timeout is None else timeout
    prefix = _prefix(page, message, key)
    earlier = frame.client.earlier_response(prefix)
    identity = earlier[0].removeprefix(prefix) if earlier else ""
    if not ID.fullmatch(identity):  # Where a server reads responses that come without a state.
        earlier = None
        identity = token_urlsafe(16)
    link = _link(frame, message, page, allowed, identity)
    if frame.client.is_multi_round_trip:
        answer = yield from _by_repeated_call(frame, link, prefix, earlier)
    else:
        answer = yield from _on_the_stream(frame, link, prefix, allowed)
    # The form of the page may query the database when it is validated again.
    result: ElicitResult[Any] = yield OnHandlersThread(partial(_result, answer, page))
    return result


def _on_the_stream(
    frame: Frame, link: Link, prefix: str, timeout: float
) -> Generator[Step, Any, Any]:
    until = time.monotonic() + timeout
    agreed = yield Request(prefix + link.id, _request(frame, link))
    if not agreed.accepted:
        return (yield from _close(frame, link, agreed))
    answer = yield from _wait(frame, link, until)
    if answer is None:
        raise TimeoutError(f"The page was not answered within {timeout:g} seconds")
    # Only the client of this elicitation has this stream (ELIC-18).
    yield Notify("notifications/elicitation/complete", {"elicitationId": link.id})
    return answer


def _by_repeated_call(
    frame: Frame, link: Link, prefix: str, earlier: tuple[str, Json] | None
) -> Generator[Step, Any, Any]:
    """The response means that the user agreed to visit the page, not that they answered there.

    As long as they did not, the same link is sent again.
    """
    answer = None
    if earlier is not None and earlier[1].get("action") == "accept":
        holds_lock = yield OnHandlersThread(_holds_lock)
        longest = 0.0 if holds_lock else MAX_WAIT
        answer = yield from _wait(frame, link, time.monotonic() + longest)
        if answer is not None and not holds_lock:
            # The handler may ask something else, and the client repeat the call once more.
            keep = partial(PageAnswer.objects.keep, answer, link.answer_expires_at())
            yield Query(keep)
    request = _request(frame, link)

    def read(result: Json) -> ElicitResult[None]:
        agreed = request.read(result)
        if agreed.accepted and answer is None:
            raise input_requests.InvalidClientResponse("the page is not answered yet")
        return agreed

    agreed = yield Request(prefix + link.id, replace(request, read=read))
    if not agreed.accepted:
        return (yield from _close(frame, link, agreed))
    return answer


def _holds_lock() -> bool:
    """Whether the transaction of this handler may keep the page from storing the answer."""
    opened = connections.all(initialized_only=True)
    return any(
        connection.vendor == "sqlite" and connection.in_atomic_block for connection in opened
    )


def _request(frame: Frame, link: Link) -> InputRequest[ElicitResult[None]]:
    url = absolute_url(frame.transport, link.view, token=links.token_of(link))
    return input_requests.url_elicitation(link.message, url, elicitation_id=link.id)


def _wait(frame: Frame, link: Link, until: float) -> Generator[Step, Any, PageAnswer | None]:
    while True:
        answer: PageAnswer | None = yield Query(lambda: PageAnswer.objects.of(link.id, frame.user))
        if answer is not None or time.monotonic() >= until:
            return answer
        yield Pause()


def _close(frame: Frame, link: Link, agreed: ElicitResult[None]) -> Generator[Step, Any, Any]:
    """Make the link invalid, because its user declined or cancelled in the client."""

    def close() -> None:
        expires_at = link.answer_expires_at()
        PageAnswer.objects.answer(link.id, frame.user, agreed.action, None, expires_at=expires_at)

    yield Query(close)
    return agreed


def _result(answer: PageAnswer | ElicitResult[None], page: Page) -> ElicitResult[Any]:
    if isinstance(answer, ElicitResult):
        return answer
    content: Any = answer.content if answer.action == "accept" else None
    if isinstance(page, str) or answer.action != "accept":
        return ElicitResult(answer.action, content)  # type: ignore[arg-type]
    # An older process may have stored the answer without them.
    with restored_formats(content.get("formats") or current_formats()):
        form = page(data=MultiValueDict(content["data"]), files=restored_files(content["files"]))
        if not form.is_valid():
            raise ToolError("What the user entered is not valid any more. Call the tool again.")
        return ElicitResult("accept", form.cleaned_data)


def _link(frame: Frame, message: str, page: Page, timeout: float, identity: str) -> Link:
    lifetime = max(timeout, request_state.LIFETIME)
    return Link(
        id=identity,
        user=str(frame.user.pk),
        tenant=frame.principal.tenant,
        server=str(frame.server.info.get("title") or frame.server.info["name"]),
        message=links.shortened(message),
        view=page if isinstance(page, str) else READY_PAGE,
        form=None if isinstance(page, str) else _path_of(page),
        expires=timezone.now().timestamp() + lifetime,
        lifetime=lifetime,
    )


def _path_of(form: type[forms.BaseForm]) -> str:
    """Return the path of the form for every worker; raises ConfigurationError."""
    path = f"{form.__module__}:{form.__qualname__}"
    try:
        is_importable = resolve_name(path) is form
    except (ImportError, AttributeError, ValueError):
        is_importable = False
    if not is_importable:
        raise ConfigurationError(f"{form!r} is shown by other workers: define it in a module")
    if DECLINE in getattr(form, "base_fields", ()):
        raise ConfigurationError(
            f"{form!r} has a field {DECLINE!r}, as the button of its page: give it another name"
        )
    return path


def _prefix(page: Page, message: str, key: str | None) -> str:
    """Return the beginning of the key of the input request; the id of the elicitation follows."""
    name = page if isinstance(page, str) else f"{page.__module__}:{page.__qualname__}"
    facts = "\0".join((name, message, key or ""))
    digest = sha256(facts.encode(errors="surrogatepass")).hexdigest()
    return f"page-{digest[:12]}-"
