"""Isolation and signing."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.contrib.admin import utils
from django.core.checks import CheckMessage, run_checks
from django.test import Client as Browser
from pytest_django import Settings

from django_mcp import Frame, Server, routing
from django_mcp.auth.base import Principal
from django_mcp.log import ClientHandler
from django_mcp.models import McpSession
from tests.memory_stores import Configure
from tests.robustness import outside
from tests.robustness.peer import (
    FORM,
    META,
    NEWEST_SESSION,
    STATELESS,
    Message,
    Peer,
    Response,
    accelerated,
    text_of,
)
from tests.spec import spec

ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"sure": True}}


@dataclass
class Person:
    """A user, as far as this package looks at users."""

    pk: int
    permissions: set[str] = field(default_factory=set)
    looked_up: int = 0
    is_authenticated = True
    is_active = True
    is_anonymous = False

    async def ahas_perm(self, name: str, obj: Any = None) -> bool:
        self.looked_up += 1
        await asyncio.sleep(0)
        return name in self.permissions

    def has_perm(self, name: str, obj: Any = None) -> bool:
        self.looked_up += 1
        return name in self.permissions

    def get_username(self) -> str:
        return f"user-{self.pk}"


class ByHeader:
    """``Authorization: Bearer 1`` is the user 1."""

    def __init__(self, *users: Person, subject: bool = True) -> None:
        self.users = {str(user.pk): user for user in users}
        self.subject = subject

    async def authenticate(self, scope: Any, /) -> Principal | None:
        header = dict(scope["headers"]).get(b"authorization", b"").decode()
        user = self.users.get(header.rpartition(" ")[2])
        if user is None:
            return None
        subject = str(user.pk) if self.subject else ""
        return Principal(scheme="token", subject=subject, user=user)


def bearer(user: int) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {user}")]


# Row 13. States and cursors.


def ordering(name: str, tier: str | None = None) -> Server:
    """A server whose tool remembers something and asks."""
    server = Server(name)

    @server.tool(requests_input=True)
    async def order(frame: Frame) -> Any:
        if tier is not None:
            frame = frame.assign("tier", tier)
        answer = await frame.client.aelicit("Sure?", FORM, key="sure")
        return f"{answer.action} {frame.assigns.get('tier')}"

    return server


def retried(peer: Peer, required: Message, tool: str = "order") -> Message:
    return peer.call(tool, requestState=required["requestState"], inputResponses={"sure": YES})


@spec("isolation-01")
async def test_state_of_one_server_is_rejected_by_another() -> None:
    office, shop = Peer(ordering("office", "gold")), Peer(ordering("shop"))
    office.capabilities = shop.capabilities = ELICITS
    required = (await office.tool("order")).result

    response = await shop.send(retried(shop, required))

    assert response.error["code"] == -32602


@spec("isolation-02")
async def test_state_of_a_server_at_another_path_is_rejected() -> None:
    first, second = ordering("office", "gold"), ordering("office")
    first.path, second.path = "/first", "/second"
    one, other = Peer(first, capabilities=ELICITS), Peer(second, capabilities=ELICITS)
    required = (await one.tool("order")).result

    response = await other.send(retried(other, required))

    assert response.error["code"] == -32602


def readable(text: str) -> str:
    """What anybody can read of a signed text."""
    found = [text]
    for part in re.split(r"[:.]", text):
        try:
            found.append(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("latin-1"))
        except ValueError:
            continue
    return " ".join(found)


@spec("isolation-03")
async def test_state_cannot_be_read_by_its_client() -> None:
    peer = Peer(ordering("office", "secret-tier"), capabilities=ELICITS)

    required = (await peer.tool("order")).result

    assert "secret-tier" not in readable(required["requestState"])


@spec("isolation-04")
async def test_answers_without_a_state_are_not_accepted() -> None:
    peer = Peer(ordering("office"), capabilities=ELICITS)

    response = await peer.tool("order", inputResponses={"sure": YES})

    assert response.result["resultType"] == "input_required"
    assert [*response.result["inputRequests"]] == ["sure"]


@spec("isolation-05")
async def test_answer_that_was_not_requested_is_not_accepted() -> None:
    server = Server("shop")

    @server.tool(requests_input=True)
    async def order(frame: Frame) -> str:
        first = await frame.client.aelicit("First?", FORM, key="sure")
        second = await frame.client.aelicit("Second?", FORM, key="really")
        return f"{first.action} {second.action}"

    peer = Peer(server, capabilities=ELICITS)
    required = (await peer.tool("order")).result
    assert [*required["inputRequests"]] == ["sure"]

    both = {"sure": YES, "really": YES}
    response = await peer.tool("order", requestState=required["requestState"], inputResponses=both)

    assert response.result["resultType"] == "input_required"
    assert [*response.result["inputRequests"]] == ["really"]


async def test_state_of_a_call_that_was_cut_off_can_be_used_again(configure: Configure) -> None:
    configure(REQUEST_STATE_SINGLE_USE=True)
    server = Server("shop")
    go_on, begun = asyncio.Event(), asyncio.Event()

    @server.tool(requests_input=True)
    async def order(frame: Frame) -> str:
        answer = await frame.client.aelicit("Sure?", FORM, key="sure")
        begun.set()
        await go_on.wait()
        return f"{answer.action}"

    peer = Peer(server, capabilities=ELICITS)
    required = (await peer.tool("order")).result
    async with peer.open(retried(peer, required)) as first:
        await begun.wait()
        first.disconnect()
        await first.whole()
    go_on.set()
    second = await peer.send(retried(peer, required))
    third = await peer.send(retried(peer, required))

    assert text_of(second.result) == "accept"
    assert third.error["code"] == -32602


def problems(*, deploy: bool = False) -> list[CheckMessage]:
    found = run_checks(include_deployment_checks=deploy)
    return [message for message in found if (message.id or "").startswith("django_mcp.")]


@pytest.mark.parametrize(
    "cache", ["locmem.LocMemCache", "dummy.DummyCache", "filebased.FileBasedCache"]
)
@pytest.mark.django_db  # Checks of models look at the database.
def test_cache_that_cannot_hold_used_states_is_an_error(
    cache: str, configure: Configure, settings: Settings
) -> None:
    backend = f"django.core.cache.backends.{cache}"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "/tmp/nowhere"}}
    configure()
    before = {message.id for message in problems(deploy=True)}
    configure(REQUEST_STATE_SINGLE_USE=True)

    found = [each for each in problems(deploy=True) if each.id not in before]

    assert [each for each in found if each.is_serious()], "There is no such check"


def paged(**options: Any) -> Server:
    """A server with two pages of tools."""
    server = Server("shop", page_size=1, **options)

    @server.tool
    def first_tool() -> str:
        return ""

    @server.tool
    def second_tool() -> str:
        return ""

    return server


@spec("isolation-06")
async def test_cursor_of_another_caller_is_rejected() -> None:
    server = paged(authenticators=[ByHeader(Person(1), Person(2))])
    one, other = Peer(server, headers=bearer(1)), Peer(server, headers=bearer(2))
    cursor = (await one.send(one.request("tools/list"))).result["nextCursor"]

    own = await one.send(one.request("tools/list", {"cursor": cursor}))
    foreign = await other.send(other.request("tools/list", {"cursor": cursor}))

    assert len(own.result["tools"]) == 1
    assert foreign.error["code"] == -32602


@spec("isolation-07")
async def test_cursor_cannot_be_read_by_its_client() -> None:
    peer = Peer(paged())

    cursor = (await peer.send(peer.request("tools/list"))).result["nextCursor"]

    assert "first_tool" not in readable(cursor)


# Row 14. Logs, and principals without a subject.


@pytest.fixture
def vault() -> Iterator[logging.Logger]:
    """A logger whose records are sent to the client that is being answered."""
    logger = logging.getLogger("vault")
    handler = ClientHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger
    logger.removeHandler(handler)


def logs(response: Response) -> str:
    return str([each for each in response.messages if each.get("method", "").endswith("message")])


@spec("isolation-08")
@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_log_lines_for_a_listener_are_sent_to_nobody_else(
    version: str, vault: logging.Logger
) -> None:
    server = Server("shop", authenticators=[ByHeader(Person(1), Person(2))])
    looked: list[int] = []

    def may_see(frame: Frame) -> bool:
        looked.append(frame.user.pk)
        vault.error("May user %s peek?", frame.user.pk)
        return True

    @server.resource("vault://fn", permission=may_see)
    def read() -> str:
        return ""

    @server.tool
    async def change(frame: Frame) -> str:
        await server.anotify_resource_updated("vault://fn")
        for _ in range(50):
            await asyncio.sleep(0.01)
            if looked.count(1):
                break
        await asyncio.sleep(0.1)
        return "done"

    listener, other = Peer(server, version, headers=bearer(1)), Peer(server, headers=bearer(2))
    if version == STATELESS:
        stream = listener.open(listener.listen(resourceSubscriptions=["vault://fn"]))
    else:
        await listener.initialize()
        subscribe = listener.request("resources/subscribe", {"uri": "vault://fn"})
        await listener.send(subscribe)
        stream = listener.open(method="GET")
    async with stream:
        await stream.status()
        looked.clear()
        response = await other.tool("change", _meta={META + "logLevel": "debug"})

    assert 1 in looked, "The listener's permission was not looked at"
    assert "peek" not in logs(response)


async def test_nothing_is_logged_to_a_client_before_its_component_is_found(
    vault: logging.Logger,
) -> None:
    server = Server("shop")

    def nobody(frame: Frame) -> bool:
        vault.error("The secret tool is not for you")
        return False

    @server.tool(permission=nobody)
    def secret() -> str:
        return ""

    response = await Peer(server).tool("secret", _meta={META + "logLevel": "debug"})

    assert logs(response) == "[]"


@spec("isolation-09")
async def test_users_without_a_subject_are_not_one_principal() -> None:
    authenticator = ByHeader(Person(1), Person(2), subject=False)
    server = Server("shop", authenticators=[authenticator])

    @server.tool
    async def remember(frame: Frame) -> Any:
        return "done", frame.assign("secret", "of user 1")

    @server.tool
    async def recall(frame: Frame) -> str:
        return str(frame.assigns.get("secret"))

    one = Peer(server, NEWEST_SESSION, headers=bearer(1))
    opened = await one.initialize()
    if opened.status != 200:
        return  # The absence of a subject is an error.
    await one.tool("remember")
    other = Peer(server, NEWEST_SESSION, headers=bearer(2), session=one.session)
    response = await other.tool("recall")

    assert response.status == 404


# Row 15. Headers that come twice, hosts, and other sites.


@spec("isolation-16")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("host", ["testserver", "localhost"]),
        ("origin", ["http://testserver", "http://localhost"]),
        ("authorization", ["Bearer 1", "Bearer 2"]),
    ],
)
async def test_header_with_two_values_is_rejected(name: str, values: list[str]) -> None:
    server = Server("shop", authenticators=[ByHeader(Person(1), Person(2))])

    @server.tool
    def public() -> str:
        return ""

    usual = [] if name == "authorization" else bearer(1)
    peer = Peer(server, headers=usual)
    pairs = [(name, value) for value in values]

    response = await peer.send(peer.request("tools/list"), without=[name], extra=pairs)

    assert response.status == 400


@spec("isolation-17")
async def test_two_session_ids_are_rejected() -> None:
    server = Server("shop")
    one, other = Peer(server, NEWEST_SESSION), Peer(server, NEWEST_SESSION)
    await one.initialize()
    await other.initialize()
    assert other.session is not None

    response = await one.send(one.request("ping"), extra=[("mcp-session-id", other.session)])

    assert response.status == 400


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mcp-protocol-version", ["2025-11-25", "2025-06-18"]),
        ("mcp-protocol-version", ["2025-06-18", "2025-11-25"]),
    ],
)
async def test_two_versions_in_a_session_are_rejected(name: str, values: list[str]) -> None:
    peer = Peer(Server("shop"), NEWEST_SESSION)
    await peer.initialize()

    response = await peer.send(
        peer.request("ping", id=5), extra=[(name, value) for value in values]
    )

    assert (response.status, response.answer.get("id")) == (400, 5)


async def test_header_that_repeats_its_value_is_accepted() -> None:
    peer = Peer(Server("shop"))
    pairs = [
        ("host", "testserver"),
        ("origin", "http://testserver"),
        ("origin", "http://testserver"),
    ]

    response = await peer.send(peer.request("server/discover"), extra=pairs)

    assert response.status == 200


@pytest.mark.django_db  # Checks of models look at the database.
def test_wildcard_in_allowed_hosts_is_reported_at_deployment(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["www.example.com"]
    before = {message.id for message in problems(deploy=True)}
    settings.ALLOWED_HOSTS = ["*"]

    assert {message.id for message in problems(deploy=True)} - before


@spec("isolation-18")
@pytest.mark.django_db(transaction=True)
async def test_stream_for_a_page_of_another_site_is_rejected(
    configure: Configure, django_user_model: Any
) -> None:
    configure(
        HTTP_SSE=True,
        AUTHENTICATORS=["django_mcp.auth.django_session.DjangoSessionAuthentication"],
    )

    def log_in() -> str:
        browser = Browser()
        browser.force_login(django_user_model.objects.create_user("ann"))
        return str(browser.cookies["sessionid"].value)

    cookie = await database_sync_to_async(log_in)()
    server = Server("shop")
    path, application = next(
        item for item in routing.endpoints(server).items() if item[0].endswith("/sse")
    )
    peer = Peer(server, "2024-11-05", application=application, path=path)
    peer.headers = [("cookie", f"sessionid={cookie}")]
    async with peer.open(method="GET", extra=[("sec-fetch-site", "same-origin")]) as own:
        assert await own.status() == 200
    for site in ("cross-site", "same-site"):
        async with peer.open(method="GET", extra=[("sec-fetch-site", site)]) as foreign:
            assert await foreign.status() == 403


# Row 16. Runtime components, lost permissions, and what is hidden.


@spec("isolation-15")
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_sensitive")
@pytest.mark.parametrize(
    "place", ["tests.robustness.outside:run", "django.contrib.admin.utils:unquote"]
)
async def test_handler_that_was_written_into_the_session_table_is_not_run(
    place: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(STORES={})
    monkeypatch.setattr(outside, "ran", [])
    monkeypatch.setattr(utils, "unquote", outside.run)
    server = Server("shop")

    @server.tool
    async def register(frame: Frame) -> Any:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return "done", frame.register_tool("own", handler=REGISTERED, input_schema=schema)

    peer = Peer(server, NEWEST_SESSION)
    await peer.initialize()
    await peer.tool("register")
    first = await peer.tool("own", {"text": "x"})
    assert not first.result.get("isError")
    row = await McpSession.objects.aget()
    assert REGISTERED in row.data
    row.data = row.data.replace(REGISTERED, place)
    await row.asave()

    await peer.tool("own", {"text": "x"})

    assert outside.ran == []


REGISTERED = "django.contrib.admin.utils:quote"


@spec("isolation-13")
async def test_lost_permission_ends_the_news_of_a_listen_stream_within_a_minute() -> None:
    may_see = True

    class Changing:
        """Says at each authentication what the caller may do."""

        async def authenticate(self, scope: Any, /) -> Principal:
            permissions = {"vault.see"} if may_see else set[str]()
            return Principal(scheme="test", subject="1", user=Person(1, permissions))

    server = Server("shop", authenticators=[Changing()])

    @server.resource("vault://fn", permission="vault.see")
    def read() -> str:
        return ""

    @server.resource("vault://other")
    def read_other() -> str:
        return ""

    peer = Peer(server)
    async with (
        accelerated(40),
        # The clock of all streams starts with the first; the second is opened between two ticks.
        peer.open(peer.listen(resourceSubscriptions=["vault://other"])) as first,
    ):
        await first.message(100)
        await asyncio.sleep(1)
        wanted = peer.listen("second", resourceSubscriptions=["vault://fn", "vault://other"])
        async with peer.open(wanted) as second:
            await second.message(100)
            may_see = False
            await asyncio.sleep(66)
            await server.anotify_resource_updated("vault://fn")
            await asyncio.sleep(4)
            received = [message["method"] for message in second.response.messages[1:]]

    assert received == []


@spec("isolation-11")
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
async def test_hidden_component_is_looked_up_like_an_unknown_one(kind: str) -> None:
    user = Person(1)
    server = Server("shop", authenticators=[ByHeader(user)])

    @server.tool(permission="vault.see")
    def hidden() -> str:
        return ""

    @server.prompt(name="hidden", permission="vault.see")
    def hidden_prompt() -> str:
        return ""

    @server.resource("vault://hidden", permission="vault.see")
    def hidden_resource() -> str:
        return ""

    peer = Peer(server, headers=bearer(1))

    def message(name: str) -> Message:
        if kind == "resource":
            return peer.request("resources/read", {"uri": f"vault://{name}"})
        method = {"tool": "tools/call", "prompt": "prompts/get"}[kind]
        return peer.request(method, {"name": name, "arguments": {}})

    counts = []
    for name in ("hidden", "unknown"):
        before = user.looked_up
        error = (await peer.send(message(name))).error
        assert error["code"] in (-32602, -32002)
        counts.append(user.looked_up - before)

    assert counts[0] == counts[1], "The time tells that the component exists"


@spec("isolation-12")
async def test_permission_that_raises_hides_its_component_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("shop")

    def broken(frame: Frame) -> bool:
        raise AttributeError("No profile")

    @server.tool(permission=broken)
    def guarded() -> str:
        return ""

    @server.tool
    def public() -> str:
        return ""

    peer = Peer(server)
    listed = await peer.send(peer.request("tools/list"))
    error = (await peer.tool("guarded")).error
    unknown = (await peer.tool("unknown")).error

    assert [tool["name"] for tool in listed.result["tools"]] == ["public"]
    assert error["code"] == unknown["code"]
    assert error["message"] == unknown["message"].replace("unknown", "guarded")
    assert any(record.exc_info for record in caplog.records)


# Row 17. File templates.


@spec("isolation-19")
@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("files://{+path}", "files://%2fetc%2fpasswd"),
        ("files://{+path}", "files:///etc/passwd"),
        ("files://{+path}", "files://%5cetc%5cpasswd"),
        ("one://{name}", "one://%2fetc%2fpasswd"),
        ("one://{name}", "one://a%2fb"),
        ("one://{name}", "one://c%3a%5cwindows"),
    ],
)
async def test_template_does_not_lead_outside_its_folder(template: str, uri: str) -> None:
    server = Server("files")
    opened: list[str] = []

    if "{+path}" in template:

        @server.resource(template)
        def read_path(path: str) -> str:
            opened.append(path)
            return "read"
    else:

        @server.resource(template)
        def read_name(name: str) -> str:
            opened.append(name)
            return "read"

    peer = Peer(server)
    response = await peer.send(peer.request("resources/read", {"uri": uri}))

    assert opened == []
    assert response.error["code"] == -32602
    assert "not found" in response.error["message"].lower()


def test_how_to_on_files_shows_safe_joining() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    pages = [page.read_text() for page in docs.rglob("*.md")]

    assert [page for page in pages if "safe_join" in page or "is_relative_to" in page]
