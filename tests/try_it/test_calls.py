"""Calls from the admin: what is sent for a form, and what the page shows of the answer."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from html import unescape
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient as AsyncBrowser
from django.test import Client as Browser
from pytest_django import Settings

from django_mcp import Frame, Server, ToolError
from django_mcp.admin.try_it import conversation
from django_mcp.admin.try_it.views import LINES
from django_mcp.contrib.approvals import prompts
from django_mcp.contrib.approvals.models import Approval, Decision
from django_mcp.middleware import RateLimit
from django_mcp.routing import endpoint
from django_mcp.signals import tool_called
from django_mcp.testing.asgi import http_scope, perform
from tests.try_it.pages import path, post, run
from tests.try_it.workshop import CANCELLED, SCRIPT
from tests.waiting import SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

ORDER = {
    "arguments/customer": "Ann",
    "arguments/lines": "[]",
}


def order(browser: Browser, **data: Any) -> Any:
    """The arguments that the tool was called with."""
    page = run(browser, "order", **{**ORDER, **data})
    assert page.status == "Success", page.text
    return page.sent[0]["params"]["arguments"]


# Values.


def test_tool_is_called_as_the_user_with_values_of_their_types(browser: Browser) -> None:
    page = post(
        browser,
        path("order"),
        {
            "run": "1",
            "arguments/customer": "<b>Ann</b>",
            "arguments/lines": '[{"product": "tea", "number": 2}, {"product": "cups"}]',
            "arguments/size": '"large"',
            "arguments/on": "2026-11-24",
            "arguments/express": "on",
            "arguments/gift": "false",
            "arguments/weight": "2",
            "arguments/address": '{"street": "Aare 1", "city": "Thun"}',
            "arguments/tags": '["new"]',
            "arguments/colours": ['"small"', '"large"'],
        },
    )
    assert page.sent[0]["params"]["arguments"] == {
        "customer": "<b>Ann</b>",
        "lines": [{"product": "tea", "number": 2}, {"product": "cups"}],
        "size": "large",
        "on": "2026-11-24",
        "express": True,
        "gift": False,
        "weight": 2,
        "address": {"street": "Aare 1", "city": "Thun"},
        "tags": ["new"],
        "colours": ["small", "large"],
    }
    assert json.loads(page.texts[0])["user"] == "staff"


def test_values_that_are_left_empty_are_not_sent(browser: Browser) -> None:
    assert order(browser) == {"customer": "Ann", "lines": [], "express": False}


def test_nested_value_is_entered_as_json_whose_members_the_field_names(browser: Browser) -> None:
    html = unescape(browser.get(path("order")).content.decode())
    assert 'placeholder="[{"product": "string", "number": "integer"}]"' in html
    assert 'placeholder="{"street": "string", "city": "string"}"' in html
    page = run(browser, "order", **{**ORDER, "arguments/address": '{"city": "Thun"}'})
    assert page.error_at("arguments/address") == "street: required, but missing"


def test_arguments_are_entered_as_json(browser: Browser) -> None:
    url = f"{path('order')}?json"
    page = post(browser, url, {"run": "1", "arguments": '{"customer": "Ann", "lines": []}'})
    assert page.sent[0]["params"]["arguments"] == {"customer": "Ann", "lines": []}
    page = post(browser, url, {"run": "1", "arguments": "{"})
    assert "This is not JSON" in page.error_at("arguments")
    page = post(browser, url, {"run": "1", "arguments": r'{"customer": "\ud800"}'})
    assert "This is not JSON" in page.error_at("arguments")
    page = post(browser, url, {"run": "1", "arguments": "[]"})
    assert page.error_at("arguments") == "The arguments are a JSON object."


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"text": NaN}', "Error -32700"),
        (f'{{"text": {2**70}}}', "Error -32600"),
        ('{"text": ' + "[" * 400 + "]" * 400 + "}", "Error -32600"),
    ],
)
def test_message_is_limited_as_that_of_a_client(browser: Browser, text: str, status: str) -> None:
    page = post(browser, f"{path('fail')}?json", {"run": "1", "arguments": text})
    assert page.status == status


def test_decimal_number_keeps_its_digits(browser: Browser) -> None:
    assert json.loads(run(browser, "price", **{"arguments/amount": "49.90"}).texts[0])[0] == "49.90"
    page = run(browser, "price", **{"arguments/amount": "5"})
    assert page.sent[0]["params"]["arguments"] == {"amount": 5}


def test_object_that_contains_itself_is_entered_as_json(browser: Browser) -> None:
    branch = '{"name": "a", "branches": [{"name": "b"}]}'
    data = {"arguments/amount": "1", "arguments/branch": branch}
    assert json.loads(run(browser, "price", **data).texts[0])[1] == "b"


# Failures.


def test_problems_are_shown_at_their_fields(browser: Browser) -> None:
    page = run(browser, "order", **{"arguments/lines": '[{"number": 0}]'})
    assert page.status == "The tool reports an error"
    assert page.error_at("arguments/customer") == "required, but missing"
    assert page.error_at("arguments/lines").startswith("0.")


def test_problems_of_a_json_schema_are_shown_at_their_fields(browser: Browser) -> None:
    page = run(browser, "classic", **{"arguments/kind": '"two"'})
    assert page.error_at("arguments/size") == "is a required property"
    page = run(browser, "classic", **{"arguments/kind": "1", "arguments/size": "3"})
    assert json.loads(page.texts[0]) == {"kind": 1, "size": 3}


def test_value_that_is_no_number_is_not_sent(browser: Browser) -> None:
    page = run(browser, "order", **ORDER, **{"arguments/weight": "heavy"})
    assert "number" in page.error_at("arguments/weight")
    assert page.status == ""


def test_error_of_a_tool_is_shown_without_its_markup(browser: Browser) -> None:
    page = run(browser, "fail", **{"arguments/text": "no"})
    assert page.status == "The tool reports an error"
    assert page.texts == [f"no {SCRIPT}"]
    assert "<script>alert" not in page.html


def test_exception_of_a_tool_is_not_shown(browser: Browser) -> None:
    page = run(browser, "explode")
    assert "failed unexpectedly" in page.texts[0]
    assert "secret" not in page.html


# Access.


def test_staff_without_the_permission_to_try_run_nothing(staff: User, browser: Browser) -> None:
    component = path("order").replace("/try/", "/change/")
    assert path("order") in browser.get(component).content.decode()
    staff.user_permissions.remove(Permission.objects.get(codename="try_component"))
    assert path("order") not in browser.get(component).content.decode()
    assert browser.get(path("order")).status_code == 403
    assert browser.post(path("order"), {"run": "1", **ORDER}).status_code == 403


def test_staff_without_the_permission_to_view_run_nothing(staff: User, browser: Browser) -> None:
    staff.user_permissions.remove(Permission.objects.get(codename="view_component"))
    assert browser.post(path("order"), {"run": "1", **ORDER}).status_code == 403


def test_post_of_another_site_is_refused(staff: User) -> None:
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(staff)
    assert browser.post(path("order"), {"run": "1", **ORDER}).status_code == 403


def test_hidden_tool_is_unknown_and_the_page_says_why(browser: Browser) -> None:
    page = run(browser, "guarded")
    assert page.status == "Error -32602"
    assert "Unknown tool: guarded" in page.text
    assert "auth.view_user" in page.text


def test_scopes_are_those_that_were_chosen(browser: Browser) -> None:
    assert "checked" in browser.get(path("scoped")).content.decode()
    assert run(browser, "scoped", scopes=["write"]).texts == ["scoped"]
    assert run(browser, "scoped").status.startswith("Error")
    assert run(browser, "scoped", scopes=["admin"]).status == ""


def test_server_with_a_captured_path_is_not_tried(browser: Browser, workshop: Server) -> None:
    workshop.path = "tenants/<slug:tenant>/mcp"
    page = run(browser, "order", **ORDER)
    assert page.status == ""
    assert "Its authenticators decide" in page.text


def test_limits_of_the_server_apply(browser: Browser, workshop: Server) -> None:
    workshop.middleware = (RateLimit(1, per="day"),)
    run(browser, "fail", **{"arguments/text": "first"})
    assert "first" not in "".join(run(browser, "fail", **{"arguments/text": "second"}).texts)


# Conversations.


def test_questions_are_answered_on_the_page(browser: Browser) -> None:
    page = run(browser, "ask")
    assert page.status == "Input required"
    assert "Who are you?" in page.text
    page = page.press("answer", "accept", **{"answer:who/name": "Ann", "answer:who/age": "x"})
    assert "whole number" in page.error_at("answer:who/age")
    page = page.press("answer", "accept", **{"answer:who/name": "Ann", "answer:who/age": "7"})
    assert 'href="https://site.example/page"' in page.html
    page = page.press("answer", "accept")
    assert page.texts == ["{'name': 'Ann', 'age': 7} accept"]
    assert [request["method"] for request in page.sent] == ["tools/call"] * 3


def test_question_is_declined(browser: Browser) -> None:
    assert run(browser, "ask").press("answer", "decline").texts == ["not told: decline"]


def test_conversation_of_another_user_is_not_continued(browser: Browser) -> None:
    page = run(browser, "ask")
    other = User.objects.create_superuser("other")
    browser.force_login(other)
    assert page.press("answer", "decline").status == ""


def test_call_is_made_at_the_tenant_of_the_page(
    browser: Browser, workshop: Server, settings: Settings
) -> None:
    @workshop.tool
    def tenant(frame: Frame) -> str:
        """Return the tenant of the caller."""
        return frame.principal.tenant or "none"

    settings.ALLOWED_HOSTS = ["*"]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "TENANT": f"{__name__}.tenant_of"}
    for host, shown in (("one.example.org", "one"), ("testserver", "none")):
        browser.defaults["HTTP_HOST"] = host
        assert run(browser, "tenant").texts == [shown]
    question = run(browser, "ask")
    browser.defaults["HTTP_HOST"] = "one.example.org"
    assert question.press("answer", "decline").status == ""


def tenant_of(request: Any) -> str | None:
    host, _dot, rest = request.get_host().partition(".")
    return host if rest else None


def test_approval_is_followed_to_its_end(browser: Browser) -> None:
    page = run(browser, "pay")
    assert page.status == "Waiting"
    assert page.press("look").status == "Waiting"
    row = Approval.objects.current().get()
    approver = User.objects.create_superuser("approver")
    row.decide(approver, Decision.APPROVE, where="page")
    assert page.press("look").texts == ["paid by staff"]


def test_caller_who_may_approve_does_so_on_the_page(
    staff: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "MIN_TIME", 0)
    staff.user_permissions.add(Permission.objects.get(codename="add_user"))
    page = run(browser, "pay")
    (decision,) = re.findall(r'name="(answer:[^"]*/decision)"', page.html)
    assert page.press("answer", "accept", **{decision: '"approve"'}).texts == ["paid by staff"]


def test_resource_is_read_by_the_variables_of_its_template(browser: Browser) -> None:
    template = "workshop://item/{number}{?form}"
    data = {"arguments/number": "7", "arguments/form": "a b"}
    page = run(browser, template, "resource_template", **data)
    assert page.sent[0]["params"]["uri"] == "workshop://item/7?form=a%20b"
    assert page.texts == ["item 7 a b"]


def test_prompt_is_rendered(browser: Browser) -> None:
    data = {"arguments/what": "tea", "arguments/size": '"large"'}
    page = run(browser, "explain", "prompt", **data)
    assert page.sent[0]["params"]["arguments"] == {"what": "tea", "size": "large"}
    assert page.texts == ["Explain tea large"]


def test_content_is_shown_and_unsafe_links_are_not(browser: Browser) -> None:
    page = run(browser, "picture")
    assert 'src="data:image/png;base64,iVBOR' in page.html
    assert page.texts == [SCRIPT]
    assert "<script>alert" not in page.html
    assert 'href="https://site.example/"' in page.html
    assert 'href="javascript' not in page.html


def test_call_is_logged_as_one_of_the_session_of_the_user(browser: Browser, staff: User) -> None:
    calls: list[Any] = []

    def receive(user: User, principal: str, outcome: str, **_: Any) -> None:
        calls.append((user.pk, principal, outcome))

    tool_called.connect(receive)
    try:
        run(browser, "fail", **{"arguments/text": "x"})
    finally:
        tool_called.disconnect(receive)
    assert calls == [(staff.pk, f"django_session:{staff.pk}", "error")]


# With the script of the page.


def lines(browser: Browser, name: str, **data: Any) -> list[Any]:
    response = browser.post(path(name), {"run": "1", **data}, headers={"Accept": LINES})
    content: Any = response.streaming_content  # type: ignore[attr-defined]
    return [json.loads(line) for line in b"".join(content).splitlines()]


def test_call_is_copied_as_a_command_of_curl(browser: Browser, workshop: Server) -> None:
    page = run(browser, "order", **{**ORDER, "arguments/customer": "Ann's café"})
    words = shlex.split(page.copies["curl"].replace("\\\n", ""))
    assert words[:2] == ["curl", "http://testserver/workshop"]
    options = [*zip(words[2::2], words[3::2], strict=True)]
    headers = dict(value.split(": ", 1) for name, value in options if name == "--header")
    body = dict(options)["--data"].encode()
    assert "Authorization" not in headers, "everybody may call it"
    reply = async_to_sync(perform)(endpoint(workshop), http_scope(headers=headers), body)
    assert reply.json()["result"]["structuredContent"]["customer"] == "Ann's café"

    workshop.authenticators = ["django_mcp.auth.token.TokenAuthentication"]
    command = run(browser, "order", **ORDER).copies["curl"]
    assert '--header "Authorization: Bearer $MCP_TOKEN"' in command


@pytest.mark.parametrize(
    ("name", "kind", "data"),
    [
        ("order", "tool", {**ORDER, "arguments/express": "on"}),
        ("fail", "tool", {"arguments/text": "It's \\n"}),
        ("guarded", "tool", {}),
        ("scoped", "tool", {"scopes": "write"}),
        ("workshop://item/{number}{?form}", "resource_template", {"arguments/number": "3"}),
        ("explain", "prompt", {"arguments/what": "tea"}),
    ],
)
def test_call_is_copied_as_a_test_that_passes(
    browser: Browser, staff: User, name: str, kind: str, data: dict[str, str]
) -> None:
    staff.user_permissions.add(Permission.objects.get(codename="view_user"))
    staff.username = "ann"
    staff.save()
    code = run(browser, name, kind, **data).copies["Test"]
    staff.delete()
    written: dict[str, Any] = {}
    exec(compile(code, "test.py", "exec"), written)
    (cases,) = (value for key, value in written.items() if key.endswith("Tests"))
    (method,) = (key for key in vars(cases) if key.startswith("test_"))
    getattr(cases(), method)()


def test_call_that_goes_on_is_not_copied_as_a_test(browser: Browser) -> None:
    assert [*run(browser, "ask").copies] == ["curl"]


def test_tried_calls_are_filled_in_again(browser: Browser) -> None:
    for text in ("first", "second", "first"):
        run(browser, "fail", **{"arguments/text": text})
    run(browser, "order", **ORDER)
    page = browser.get(path("fail")).content.decode()
    assert re.findall(r'again=(\d)">.*?<code>(.*?)</code>', page) == [
        ("0", "{&quot;text&quot;: &quot;first&quot;}"),
        ("1", "{&quot;text&quot;: &quot;second&quot;}"),
    ]
    assert "second</textarea>" in browser.get(f"{path('fail')}?again=1").content.decode()
    for number in ("2", "-1", "x", "9" * 5000):
        again = browser.get(f"{path('fail')}?again={number}")
        assert "t</textarea>" not in again.content.decode()


def test_tried_calls_are_those_of_the_login(browser: Browser, staff: User) -> None:
    run(browser, "fail", **{"arguments/text": "a secret"})
    stored = browser.session[conversation.TRIED]
    assert "secret" not in stored
    browser.logout()
    browser.force_login(staff)
    assert "a secret" not in browser.get(path("fail")).content.decode()


def test_tried_calls_have_a_bounded_length(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "MAX_TRIED_LENGTH", 300)
    for text in ("first", "second", "x" * 300):
        run(browser, "fail", **{"arguments/text": text})
    assert "again=" not in browser.get(path("fail")).content.decode()
    for text in ("first", "second", "third", "fourth"):
        run(browser, "fail", **{"arguments/text": text})
    assert "again=1" in browser.get(path("fail")).content.decode()
    assert "again=3" not in browser.get(path("fail")).content.decode()


def test_session_in_a_cookie_keeps_no_calls(browser: Browser, settings: Settings) -> None:
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    browser.force_login(User.objects.get(username="staff"))
    assert run(browser, "fail", **{"arguments/text": "long"}).copies
    assert "again=" not in browser.get(path("fail")).content.decode()


def test_progress_is_sent_while_the_tool_runs(browser: Browser) -> None:
    events = lines(browser, "count", **{"arguments/to": "2"})
    assert [event["type"] for event in events] == ["message"] * 4 + ["page"]
    assert events[1]["progress"] == {"progress": 1, "total": 2, "message": "step 1"}
    assert "counted" in events[-1]["result"]


def test_form_with_an_error_sends_nothing(browser: Browser) -> None:
    (event,) = lines(browser, "count", **{"arguments/to": "x"})
    assert event["has_errors"]
    assert "whole number" in event["form"]


def test_task_is_followed_to_its_end(browser: Browser) -> None:
    page = run(browser, "slow")
    assert page.status == "Task: working"
    while page.status == "Task: working":
        page = page.press("look")
    assert page.status == "Task: input required"
    page = page.press("answer", "accept")
    while page.status.startswith("Task"):
        page = page.press("look")
    assert page.texts == ["slowly: accept"]


def test_task_is_cancelled(browser: Browser) -> None:
    assert run(browser, "slow").press("stop").status == "Task: cancelled"


def test_call_is_cancelled_when_the_page_is_closed(browser: Browser) -> None:
    CANCELLED.clear()
    response: Any = browser.post(path("wait"), {"run": "1"}, headers={"Accept": LINES})
    parts = iter(response.streaming_content)
    assert b"tools/call" in next(parts)
    assert b"waits" in next(parts)
    response.close()
    assert CANCELLED.wait(SECONDS)


async def test_call_is_cancelled_when_the_page_is_closed_under_asgi(staff: User) -> None:
    CANCELLED.clear()
    browser = AsyncBrowser()
    await browser.aforce_login(staff)
    response: Any = await browser.post(path("wait"), {"run": "1"}, headers={"Accept": LINES})
    parts = response.streaming_content
    assert b"tools/call" in await anext(parts)
    assert b"waits" in await anext(parts)
    # What Django does when the browser disconnects.
    waiting = asyncio.create_task(anext(parts))
    await asyncio.wait({waiting}, timeout=0)
    waiting.cancel()
    assert await asyncio.to_thread(CANCELLED.wait, 10)


def test_error_text_of_a_tool_is_searched_for_fields_in_linear_time(
    workshop: Server, browser: Browser
) -> None:
    @workshop.tool
    def refuse(customer: str) -> str:
        raise ToolError(f"Invalid: customer{'.a' * 5_000}; customer.name: is too short")

    page = run(browser, "refuse", **{"arguments/customer": "Ann"})

    assert page.error_at("arguments/customer") == "is too short"
