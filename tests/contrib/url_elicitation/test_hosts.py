"""Hosts that cannot be asked and have no tasks: questions, approvals and long calls have a way on.

Each ends in a text with the page to open and the tool to call later, in every revision.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import sync_to_async
from django import forms
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser
from pydantic import BaseModel, Field

from django_mcp import ConfigurationError, Frame, Server, UrlElicitationRequired
from django_mcp.contrib.approvals.models import Approval
from django_mcp.contrib.url_elicitation import pages
from django_mcp.contrib.url_elicitation.pages import aelicit_page
from django_mcp.contrib.url_elicitation.questions import form_of
from django_mcp.core.components.tool import tool_component
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.core.server.extensions import Extensions
from django_mcp.models import McpTask
from django_mcp.testing import Client, accept, decline
from django_mcp.testing.results import CallResult
from tests.contrib.url_elicitation.pages_of_tests import VALID, BankForm
from tests.memory_stores import configure
from tests.waiting import SECONDS

__all__ = ["configure"]

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.contrib.url_elicitation.pages_of_tests"),
]

HOSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ChatGPT": ("2026-07-28", {}),
    "ChatGPT with sessions": ("2025-06-18", {}),
    "Copilot": ("2026-07-28", {"extensions": {"io.modelcontextprotocol/ui": {}}}),
    "opencode": ("2025-11-25", {"roots": {}}),
    "the oldest": ("2024-11-05", {}),
    "an old one": ("2025-03-26", {"sampling": {}}),
}
"""What hosts without questions and tasks declare, in the revisions that they speak."""
ID = re.compile(r'call (\w+) with id="([\w-]+)"', re.IGNORECASE)
URL = re.compile(r"https://\S+")
SCRIPT = "<script>alert(1)</script>"


class Order(BaseModel):
    pieces: int = Field(ge=1)
    wrapped: bool = False
    note: str | None = None


@pytest.fixture(autouse=True)
def site(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(BASE_URL="https://shop.example")
    monkeypatch.setattr(pages, "POLL_INTERVAL", 0.01)


@pytest.fixture
def ann() -> User:
    user = User.objects.create_user("ann")
    user.user_permissions.add(Permission.objects.get(codename="delete_user"))
    return user


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return HOSTS[request.param]


class Shop(Server):
    """A server with a long call, two questions and an approval."""

    def __init__(self) -> None:
        super().__init__("shop", title="The shop")
        self.may_end = asyncio.Event()
        self.runs = 0


@pytest.fixture
def shop() -> Shop:
    server = Shop()

    @server.tool(answer_within=0.05)
    async def count(frame: Frame) -> list[int]:
        server.runs += 1
        frame.client.progress(1, 2, "Half is counted")
        await server.may_end.wait()
        return [1, 2]

    @server.tool(requests_input=True, answer_within=SECONDS)
    async def order(frame: Frame) -> str:
        server.runs += 1
        answer = await frame.client.aelicit("How many pieces?", Order)
        if not answer.accepted:
            return f"Nothing ordered: {answer.action}"
        return f"{answer.content!r}"

    @server.tool(requests_input=True, answer_within=SECONDS)
    async def pay(frame: Frame) -> str:
        answer = await aelicit_page(frame, "Enter the password of your bank.", BankForm)
        return f"{answer.action} {answer.content['until']}"

    @server.tool(answer_within=SECONDS)
    async def connect() -> str:
        raise UrlElicitationRequired.at("https://bank.example/connect", "Connect your bank")

    @server.tool(approval="auth.delete_user")
    async def refund(amount: int) -> str:
        return f"Refunded {amount}"

    return server


def client_of(server: Server, host: tuple[str, dict[str, Any]], user: User | None) -> Client:
    version, capabilities = host
    options: Any = {"version": version, "capabilities": capabilities, "user": user}
    return Client(server, **options)


def way_on(result: CallResult) -> tuple[str, str]:
    """The tool and the id with which a text says to go on."""
    assert not result.is_error
    match = ID.search(result.text)
    assert match is not None, result.text
    return match[1], match[2]


def url_in(result: CallResult) -> str:
    match = URL.search(result.text)
    assert match is not None, result.text
    return match[0].rstrip(".")


def browser_of(user: User) -> Browser:
    browser = Browser()
    browser.force_login(user)
    return browser


def open_page(user: User, url: str) -> Any:
    return browser_of(user).get(urlsplit(url).path)


def answer(user: User, url: str, **values: Any) -> Any:
    """Fill in the form of the page, as a browser does."""
    browser = browser_of(user)
    path = urlsplit(url).path
    html = browser.get(path).content.decode()
    hidden = re.search(r'name="question" value="([^"]+)"', html)
    assert hidden is not None, html
    named = {name if name == "decline" else f"answer-{name}": v for name, v in values.items()}
    return browser.post(path, {"question": hidden[1], **named})


async def test_long_call_ends_in_a_text_and_has_its_result_later(
    shop: Shop, host: tuple[str, dict[str, Any]], ann: User
) -> None:
    async with client_of(shop, host, ann) as client:
        result = await client.call_tool("count")
        tool, key = way_on(result)
        assert "is still running" in result.text
        assert "Do not call count again" in result.text

        again = await client.call_tool(tool, {"id": key})
        assert way_on(again) == ("call_status", key)
        shop.may_end.set()
        async with asyncio.timeout(SECONDS):
            while "still running" in (ended := await client.call_tool(tool, {"id": key})).text:
                pass
    assert not ended.is_error
    assert "1" in ended.text
    assert "2" in ended.text
    assert shop.runs == 1


async def test_question_is_answered_on_a_page(
    shop: Shop, host: tuple[str, dict[str, Any]], ann: User
) -> None:
    async with client_of(shop, host, ann) as client:
        result = await client.call_tool("order")
        tool, key = way_on(result)
        assert "How many pieces?" in result.text

        url = url_in(result)
        page = await sync_to_async(open_page)(ann, url)
        assert "How many pieces?" in page.content.decode()
        wrong = await sync_to_async(answer)(ann, url, pieces="0")
        assert wrong.status_code == 200
        sent = await sync_to_async(answer)(ann, url, pieces="3", wrapped="on")
        assert sent.status_code == 302
        ended = await client.call_tool(tool, {"id": key})
        last = await sync_to_async(open_page)(ann, url)
    assert ended.text == "Order(pieces=3, wrapped=True, note=None)"
    assert shop.runs == 1
    assert "Thank you" in last.content.decode()


async def test_page_of_a_tool_is_opened_by_the_page_of_its_question(
    shop: Shop, host: tuple[str, dict[str, Any]], ann: User
) -> None:
    async with client_of(shop, host, ann) as client:
        result = await client.call_tool("pay")
        tool, key = way_on(result)
        agreed = await sync_to_async(answer)(ann, url_in(result))
        page = await sync_to_async(post)(ann, agreed.headers["Location"], VALID)
        assert page.status_code == 200
        async with asyncio.timeout(SECONDS):
            while "2026" not in (ended := await client.call_tool(tool, {"id": key})).text:
                pass
    assert ended.text == "accept 2026-12-24"


def post(user: User, url: str, data: Any) -> Any:
    return browser_of(user).post(urlsplit(url).path, data)


async def test_page_that_a_tool_requires_is_named(
    shop: Shop, host: tuple[str, dict[str, Any]], ann: User
) -> None:
    async with client_of(shop, host, ann) as client:
        result = await client.call_tool("connect")
    assert result.is_error
    assert "Connect your bank. https://bank.example/connect" in result.text
    assert "Then call connect again" in result.text


async def test_approval_ends_in_a_text_and_has_its_result_later(
    shop: Shop, host: tuple[str, dict[str, Any]], ann: User
) -> None:
    async with client_of(shop, host, ann) as client:
        result = await client.call_tool("refund", {"amount": 3})
        tool, key = way_on(result)
        assert tool == "approval_status"
        await sync_to_async(approve)(ann, url_in(result), key)
        async with asyncio.timeout(SECONDS):
            while "Refunded" not in (ended := await client.call_tool(tool, {"id": key})).text:
                pass
    assert ended.text == "Refunded 3"


def approve(user: User, url: str, key: str) -> None:
    digest = Approval.objects.get(pk=key).digest
    data = {"decision": "approve", "digest": digest}
    assert browser_of(user).post(urlsplit(url).path, data).status_code in (200, 302)


async def test_declined_question_reaches_the_handler(shop: Shop, ann: User) -> None:
    async with client_of(shop, HOSTS["ChatGPT"], ann) as client:
        result = await client.call_tool("order")
        tool, key = way_on(result)
        page = await sync_to_async(answer)(ann, url_in(result), decline="1")
        ended = await client.call_tool(tool, {"id": key})
    assert "Not answered" in page.content.decode()
    assert ended.text == "Nothing ordered: decline"


async def test_host_that_declines_by_itself_gets_what_the_tool_says(shop: Shop, ann: User) -> None:
    """As Codex does where nobody is there."""
    async with Client(shop, version="2025-06-18", user=ann, elicitation=decline()) as client:
        assert (await client.call_tool("order")).text == "Nothing ordered: decline"


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_client_that_can_be_asked_is_asked(shop: Shop, ann: User, version: str) -> None:
    async with Client(shop, version=version, user=ann, elicitation=accept(pieces=2)) as client:
        assert "pieces=2" in (await client.call_tool("order")).text
    assert not await McpTask.objects.aexists()


async def test_short_call_is_answered_with_its_result(
    shop: Shop, host: tuple[str, dict[str, Any]], ann: User
) -> None:
    shop.components.remove("tool", "count")

    @shop.tool(answer_within=SECONDS)
    async def count() -> list[int]:
        return [3]

    async with client_of(shop, host, ann) as client:
        assert "3" in (await client.call_tool("count")).text


async def test_stranger_finds_neither_the_call_nor_its_page(shop: Shop, ann: User) -> None:
    eve = await User.objects.acreate_user("eve")
    async with client_of(shop, HOSTS["ChatGPT"], ann) as client:
        result = await client.call_tool("order")
        tool, key = way_on(result)
        url = url_in(result)
        async with client_of(shop, HOSTS["ChatGPT"], eve) as other:
            (await other.call_tool(tool, {"id": key})).assert_error("no call of yours")
        page = await sync_to_async(open_page)(eve, url)
        posted = await sync_to_async(post)(eve, url, {"decline": "1"})
        anonymous = await sync_to_async(Browser().get)(urlsplit(url).path)
        await sync_to_async(answer)(ann, url, decline="1")
        ended = await client.call_tool(tool, {"id": key})
    assert page.status_code == posted.status_code == 404
    assert anonymous.status_code == 302
    assert ended.text == "Nothing ordered: decline"


async def test_form_that_was_answered_before_answers_nothing_else(shop: Shop, ann: User) -> None:
    @shop.tool(requests_input=True, answer_within=SECONDS)
    async def two(frame: Frame) -> str:
        first = await frame.client.aelicit("First?", Order)
        second = await frame.client.aelicit("Second?", Order)
        return f"{first.content.pieces} {second.content.pieces}"

    async with client_of(shop, HOSTS["ChatGPT"], ann) as client:
        result = await client.call_tool("two")
        tool, key = way_on(result)
        url = url_in(result)
        await sync_to_async(answer)(ann, url, pieces="1")
        waits = await client.call_tool(tool, {"id": key})
        while "Second?" not in waits.text:
            waits = await client.call_tool(tool, {"id": key})
        stale = {"question": "elicitation/create", "answer-pieces": "9"}
        assert (await sync_to_async(post)(ann, url, stale)).status_code == 302
        await sync_to_async(answer)(ann, url, pieces="2")
        ended = await client.call_tool(tool, {"id": key})
    assert ended.text == "1 2"


async def test_question_without_the_page_fails_with_a_reason(
    shop: Shop, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Extensions, "input_page", "nowhere:question")
    async with client_of(shop, HOSTS["ChatGPT"], ann) as client:
        result = await client.call_tool("order")
    assert result.is_error
    assert "needs a client with the capability elicitation" in result.text


class Choices(forms.Form):
    """A field of each kind that a question may have."""

    size = forms.ChoiceField(choices=[("s", "Small"), ("l", "Large")])
    colours = forms.MultipleChoiceField(choices=[("r", "Red"), ("g", "Green")])
    day = forms.DateField()
    mail = forms.EmailField(required=False)
    weight = forms.FloatField(required=False)


def test_question_may_have_a_field_that_forms_have_an_attribute_for() -> None:
    properties = {name: {"type": "string"} for name in ("prefix", "data", "errors")}
    form = form_of({"requestedSchema": {"properties": properties, "required": ["prefix"]}})
    data = {"answer-prefix": "Dr.", "answer-data": "x"}
    assert [*form().fields] == ["prefix", "data", "errors"]
    assert form(data).is_valid()
    assert form(data)["prefix"].html_name == "answer-prefix"


def test_description_of_a_field_is_shown_as_text() -> None:
    members = {"type": "string", "title": SCRIPT, "description": SCRIPT, "enum": [SCRIPT]}
    form = form_of({"requestedSchema": {"properties": {"note": members}}})
    assert SCRIPT not in form().as_div()
    assert form().as_div().count("&lt;script&gt;") == 4


async def test_fields_of_each_kind_are_answered(shop: Shop, ann: User) -> None:
    @shop.tool(requests_input=True, answer_within=SECONDS)
    async def choose(frame: Frame) -> str:
        answer = await frame.client.aelicit("Which?", Choices)
        return str(sorted(answer.content.items(), key=lambda item: item[0]))

    async with client_of(shop, HOSTS["ChatGPT"], ann) as client:
        result = await client.call_tool("choose")
        tool, key = way_on(result)
        given = {"size": "l", "colours": ["r", "g"], "day": "2026-12-24", "weight": "1.5"}
        sent = await sync_to_async(answer)(ann, url_in(result), **given)
        assert sent.status_code == 302, sent.content.decode()
        ended = await client.call_tool(tool, {"id": key})
    for text in ("('size', 'l')", "['r', 'g']", "2026, 12, 24", "('weight', 1.5)"):
        assert text in ended.text


async def test_failed_call_says_so(shop: Shop, ann: User) -> None:
    @shop.tool(answer_within=SECONDS)
    async def fail() -> str:
        raise RuntimeError("secret")

    async with client_of(shop, HOSTS["ChatGPT"], ann) as client:
        result = await client.call_tool("fail")
    assert result.is_error
    assert "secret" not in result.text


async def test_client_with_tasks_gets_a_task(shop: Shop, ann: User) -> None:
    @shop.tool(task_support="optional", task_after=0, answer_within=SECONDS)
    async def work() -> str:
        return "done"

    tasks: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with client_of(shop, ("2026-07-28", tasks), ann) as client:
        created = await client.request("tools/call", {"name": "work", "arguments": {}})
    assert created["resultType"] == "task"


def test_tool_lists_no_output_schema_and_the_server_has_the_other_tool(shop: Shop) -> None:
    listed = {tool.name: tool.descriptor() for tool in shop.components.all() if tool.kind == "tool"}
    assert "outputSchema" not in listed["count"]
    assert listed["call_status"]["annotations"] == {"readOnlyHint": True}


@pytest.mark.parametrize("seconds", ["soon", -1, True, float("inf")])
def test_seconds_are_a_number(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="answer_within"):
        tool_component(approve, answer_within=seconds)


def test_table_has_every_revision() -> None:
    assert {version for version, _ in HOSTS.values()} == set(BY_VERSION)
