"""Pages of URL-mode elicitation: answered by the user of the call, once, and by nobody else."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode, urlsafe_b64decode
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django import forms
from django.contrib.auth.models import AnonymousUser, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.utils import timezone

from django_mcp import Frame
from django_mcp.contrib.url_elicitation import links, pages
from django_mcp.contrib.url_elicitation.models import PageAnswer
from django_mcp.contrib.url_elicitation.pages import aelicit_page
from django_mcp.core.frame.client import request_state
from django_mcp.testing import Client, accept, cancel, decline
from tests.contrib.url_elicitation.pages_of_tests import (
    MESSAGE,
    VALID,
    bank,
    browser_of,
    path_of,
    visiting,
)
from tests.memory_stores import configure
from tests.spec import spec
from tests.waiting import SECONDS

__all__ = ["configure"]

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.contrib.url_elicitation.pages_of_tests"),
]

SESSION, STATELESS = "2025-11-25", "2026-07-28"
BOTH = pytest.mark.parametrize("version", [SESSION, STATELESS])
PAID = "Paid on 24 December from a+b"


@pytest.fixture(autouse=True)
def site(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL of the site, and short waits."""
    configure(BASE_URL="https://bank.example")
    monkeypatch.setattr(pages, "POLL_INTERVAL", 0.01)
    monkeypatch.setattr(pages, "MAX_WAIT", 0.05)


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def eve() -> User:
    return User.objects.create_user("eve")


@pytest.fixture
def link(ann: User) -> str:
    return link_of(ann, "BankForm", "<script>alert(1)</script>")


def link_of(user: User, form: str, message: str) -> str:
    """The path of an open elicitation of a user, for a form of these tests."""
    made = links.Link(
        id="x" * 22,
        user=str(user.pk),
        server="The bank",
        message=message,
        view="django_mcp_elicitation:form",
        form=f"tests.contrib.url_elicitation.pages_of_tests:{form}",
        expires=timezone.now().timestamp() + 60,
    )
    return f"/elicitation/form/{links.token_of(made)}/"


# The handler.


async def test_long_message_makes_no_long_link(ann: User) -> None:
    requests: list[Any] = []
    server = bank()

    @server.tool
    async def ask(frame: Frame) -> str:
        await aelicit_page(frame, "ß\ud800" * 100_000, "connect")
        return "never"

    def answer(request: Any) -> Any:
        requests.append(request)
        return decline()

    async with Client(server, version=SESSION, user=ann, elicitation=answer) as client:
        await client.call_tool("ask")

    (request,) = requests
    assert len(request["url"]) < 8000
    assert len(request["message"]) == links.MAX_MESSAGE


class Dismissal(forms.Form):
    decline = forms.BooleanField()


async def test_form_with_a_field_of_the_name_of_the_button_is_refused(
    ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    server = bank()

    @server.tool
    async def dismiss(frame: Frame) -> str:
        await aelicit_page(frame, "Sure?", Dismissal)
        return "never"

    async with Client(server, version=SESSION, user=ann, elicitation=lambda _: decline()) as client:
        (await client.call_tool("dismiss")).assert_error()

    assert "has a field 'decline', as the button of its page" in caplog.text


@spec("ELIC-29")
@BOTH
async def test_handler_receives_what_the_user_entered(version: str, ann: User) -> None:
    opened: list[Any] = []
    async with Client(
        bank(), version=version, user=ann, elicitation=visiting(ann, VALID, opened)
    ) as client:
        assert (await client.call_tool("apay")).text == PAID
        page, done = opened
        assert MESSAGE in page.text
        assert "Thank you" in done.text
        row = await PageAnswer.objects.aget()
        assert "tea pot" not in row.encrypted_content


async def test_synchronous_handler_receives_what_the_user_entered(ann: User) -> None:
    opened: list[Any] = []
    async with Client(
        bank(), version=STATELESS, user=ann, elicitation=visiting(ann, VALID, opened)
    ) as client:
        assert (await client.call_tool("pay")).text == PAID


@spec("ELIC-17")
async def test_completion_is_sent_to_the_client_with_the_id_of_the_elicitation(ann: User) -> None:
    requests: list[Any] = []
    visit = visiting(ann, {}, [])

    async def answer(request: dict[str, Any]) -> Any:
        requests.append(request)
        return await visit(request)

    async with Client(bank(), version=SESSION, user=ann, elicitation=answer) as client:
        assert (await client.call_tool("connect")).text == "accept: {'account': 3}"
        sent = [
            each
            for each in client.notifications
            if each["method"] == "notifications/elicitation/complete"
        ]
    assert [each["params"] for each in sent] == [{"elicitationId": requests[0]["elicitationId"]}]
    assert requests[0]["url"].startswith("https://bank.example/connect/")


@BOTH
async def test_same_link_is_sent_until_the_page_is_answered(version: str, ann: User) -> None:
    ids: list[str] = []

    async def answer(request: dict[str, Any]) -> Any:
        found = links.read(path_of(request).split("/")[-2])
        assert found is not None
        ids.append(found.id)
        if len(ids) == 3 or version == SESSION:
            await visiting(ann, {}, [])(request)
        return accept()

    async with Client(bank(), version=version, user=ann, elicitation=answer) as client:
        assert (await client.call_tool("connect")).text == "accept: {'account': 3}"
    assert len(ids) == (1 if version == SESSION else 3)
    assert len(set(ids)) == 1


async def test_repeated_call_does_not_wait_with_a_lock_on_sqlite(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_WAIT", 60.0)
    responses = [accept(), decline()]
    async with Client(bank(), user=ann, elicitation=lambda _: responses.pop(0)) as client:
        async with asyncio.timeout(SECONDS):
            assert (await client.call_tool("connect_once")).text == "decline"
    assert responses == []


async def test_unanswered_page_is_a_timeout_in_a_session(ann: User) -> None:
    async with Client(bank(), version=SESSION, user=ann, elicitation=lambda _: accept()) as client:
        result = await client.call_tool("connect", {"timeout": 0.05})
    assert result.text == "Too late"


@BOTH
@pytest.mark.parametrize("action", [decline, cancel])
async def test_declining_in_the_client_closes_the_link(
    version: str, action: Any, ann: User
) -> None:
    paths: list[str] = []

    def answer(request: dict[str, Any]) -> Any:
        paths.append(path_of(request))
        return action()

    async with Client(bank(), version=version, user=ann, elicitation=answer) as client:
        expected = action()["action"]
        assert (await client.call_tool("apay")).text == f"Not paid: {expected}"
    response = await sync_to_async(lambda: browser_of(ann).post(paths[0], VALID))()
    assert response.status_code == 409
    assert (await PageAnswer.objects.aget()).action == expected


@BOTH
async def test_declining_on_the_page_is_returned_to_the_handler(version: str, ann: User) -> None:
    answer = visiting(ann, {"decline": "1"}, [])
    async with Client(bank(), version=version, user=ann, elicitation=answer) as client:
        assert (await client.call_tool("apay")).text == "Not paid: decline"


@BOTH
async def test_pages_with_the_same_message_are_distinguished_by_their_key(
    version: str, ann: User
) -> None:
    visit = visiting(ann, {}, [])
    requests: list[str] = []

    async def answer(request: dict[str, Any]) -> Any:
        requests.append(request["url"])
        return await visit(request) if len(requests) == 1 else decline()

    async with Client(bank(), version=version, user=ann, elicitation=answer) as client:
        assert (await client.call_tool("both")).text == "{'account': 3} decline"


@BOTH
@pytest.mark.parametrize(
    ("language", "day", "at"),
    [("en-gb", "03/04/2030", "03/04/2030 10:00"), ("de", "03.04.2030", "03.04.2030 10:00")],
)
@pytest.mark.parametrize("time_zone", ["Asia/Tokyo", "540"])
async def test_handler_receives_the_dates_that_the_user_meant(
    ann: User, settings: Any, version: str, language: str, day: str, at: str, time_zone: str
) -> None:
    module = "tests.contrib.url_elicitation.pages_of_tests"
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django.middleware.locale.LocaleMiddleware",
        f"{module}.TimeZoneMiddleware",
    ]
    headers = {"accept-language": language, "time-zone": time_zone}
    visit = visiting(ann, {"day": day, "at": at}, [], headers)

    async def in_new_loop(request: dict[str, Any]) -> Any:
        return await visit(request)

    async def answer(request: dict[str, Any]) -> Any:
        # In a thread of its own, as a browser: the language of the call is not that of the page.
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: asyncio.run(in_new_loop(request)))

    async with Client(bank(), version=version, user=ann, elicitation=answer) as client:
        result = await client.call_tool("meet")

    assert result.text == "03 April 03 April 01:00"


async def test_handler_receives_the_answer_that_an_older_process_stored(ann: User) -> None:
    visit = visiting(ann, VALID, [])

    async def answer(request: dict[str, Any]) -> Any:
        given = await visit(request)
        row = await PageAnswer.objects.aget()
        del (content := row.content)["formats"]
        row.encrypted_content = row.encrypt(content)
        await row.asave()
        return given

    async with Client(bank(), version=STATELESS, user=ann, elicitation=answer) as client:
        assert (await client.call_tool("pay")).text == PAID


@BOTH
async def test_handler_receives_all_parts_of_a_widget(version: str, ann: User) -> None:
    sent = {
        "range_from_year": "2030",
        "range_from_month": "4",
        "range_from_day": "3",
        "range_at_0": "2030-04-03",
        "range_at_1": "10:00",
        "range_scan": SimpleUploadedFile("a.txt", b"a"),
    }
    answer = visiting(ann, sent, [])
    async with Client(bank(), version=version, user=ann, elicitation=answer) as client:
        result = await client.call_tool("reserve")

    assert result.text == "03/04/2030 ['2030-04-03', '10:00'] a.txt"


@pytest.mark.parametrize("data", [VALID, {"decline": "1"}], ids=["answer", "decline"])
def test_answer_is_kept_as_long_as_the_call_may_be_repeated(
    link: str, ann: User, data: dict[str, Any]
) -> None:
    """The link expires in a minute; the client may have received another one a moment ago."""
    browser_of(ann).post(link, data)
    assert seconds_left() > request_state.LIFETIME - SECONDS


async def test_answer_of_a_link_with_a_longer_timeout_is_kept_as_long(ann: User) -> None:
    answer = visiting(ann, {}, [])
    async with Client(bank(), version=SESSION, user=ann, elicitation=answer) as client:
        await client.call_tool("connect", {"timeout": 5000.0})
    assert await sync_to_async(seconds_left)() > 5000 - SECONDS


async def test_earlier_answer_is_kept_while_the_handler_asks_something_else(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on all databases but SQLite, where the transaction of the handler may have the lock.
    monkeypatch.setattr(pages, "_holds_lock", lambda: False)
    visit = visiting(ann, {}, [])

    async def answer(request: dict[str, Any]) -> Any:
        given = await visit(request)
        # The first answer is about to expire when the call is repeated.
        await PageAnswer.objects.aupdate(expires_at=timezone.now() + timedelta(seconds=SECONDS))
        return given

    async with Client(bank(), version=STATELESS, user=ann, elicitation=answer) as client:
        assert (await client.call_tool("both")).text == "{'account': 3} accept"
    assert await sync_to_async(seconds_left)() > request_state.LIFETIME - SECONDS


def seconds_left() -> float:
    """The seconds for which the answer that expires first is kept."""
    row = PageAnswer.objects.order_by("expires_at")[0]
    return (row.expires_at - timezone.now()).total_seconds()


async def test_caller_without_a_user_is_not_sent_to_a_page() -> None:
    async with Client(bank(), user=AnonymousUser(), elicitation=lambda _: accept()) as client:
        result = await client.call_tool("connect")
    assert result["isError"]
    assert "logged in" in result.text


@BOTH
async def test_handler_receives_the_file_of_the_user(version: str, ann: User) -> None:
    opened: list[Any] = []
    scan = SimpleUploadedFile("../a.pdf", b"%PDF" * 800_000, "application/pdf")
    answer = visiting(ann, {"title": "Bill", "scan": scan}, opened)
    async with Client(bank(), version=version, user=ann, elicitation=answer) as client:
        result = await client.call_tool("scan")

    assert result.text == "Bill: a.pdf, application/pdf, 3200000"
    page, done = opened
    assert 'enctype="multipart/form-data"' in page.text
    assert "Thank you" in done.text
    row = await PageAnswer.objects.aget()
    assert b64encode(b"%PDF" * 3).decode() not in row.encrypted_content


@BOTH
async def test_file_that_the_form_has_read_reaches_the_handler(version: str, ann: User) -> None:
    answer = visiting(ann, {"scan": SimpleUploadedFile("a.pdf", b"%PDF-2.0")}, [])
    async with Client(bank(), version=version, user=ann, elicitation=answer) as client:
        result = await client.call_tool("scan_pdf")

    assert result.text == "8"


def test_files_above_the_limit_are_refused_on_the_page(configure: Any, ann: User) -> None:
    configure(MAX_UPLOAD_SIZE=1000)
    browser = browser_of(ann)
    large = SimpleUploadedFile("a.txt", b"x" * 1001)

    page = browser.post(link_of(ann, "FileForm", "Scan it."), {"title": "Bill", "scan": large})

    assert "The files have more than 1000" in page.text
    assert not PageAnswer.objects.exists()
    small = SimpleUploadedFile("a.txt", b"x" * 1000)
    path = link_of(ann, "FileForm", "Scan it.")
    assert "Thank you" in browser.post(path, {"title": "Bill", "scan": small}).text


def test_other_files_than_those_of_the_form_are_not_stored(ann: User) -> None:
    sent = {
        "title": "Bill",
        "scan": SimpleUploadedFile("a.txt", b"a"),
        "other": SimpleUploadedFile("b.txt", b"b"),
    }

    browser_of(ann).post(link_of(ann, "FileForm", "Scan it."), sent)

    content = PageAnswer.objects.get().content
    assert (content["data"], [*content["files"]]) == ({"title": ["Bill"]}, ["scan"])


async def test_client_without_a_host_needs_the_base_url(
    configure: Any, ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    configure()
    async with Client(
        bank(), transport="stdio", user=ann, elicitation=lambda _: accept()
    ) as client:
        assert (await client.call_tool("connect"))["isError"]
    assert 'set DJANGO_MCP["BASE_URL"]' in caplog.text


# Attacks on the page.


@spec("ELIC-33", "ELIC-36", "2026/ELI-07")
def test_page_needs_a_login(link: str) -> None:
    for response in (browser_of(None).get(link), browser_of(None).post(link, VALID)):
        assert response.status_code == 302
        assert response.headers["location"].startswith("/login/")
    assert not PageAnswer.objects.exists()


def without_csrf(response: Any) -> str:
    """The text of a page without the token of its forms, which is another one each time."""
    return re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", response.text)


@spec("ELIC-37", "2026/ELI-08")
def test_link_is_not_valid_for_another_user(link: str, eve: User) -> None:
    browser = browser_of(eve)
    page, posted = browser.get(link), browser.post(link, VALID)
    unknown = browser.get("/elicitation/form/unknown/")
    assert [page.status_code, posted.status_code] == [404, 404]
    assert without_csrf(page) == without_csrf(posted) == without_csrf(unknown)
    assert "bank" not in page.text
    assert not PageAnswer.objects.exists()


@spec("ELIC-36")
def test_link_is_not_valid_for_a_deactivated_user(link: str, ann: User) -> None:
    browser = browser_of(ann)
    User.objects.update(is_active=False)
    assert browser.post(link, VALID).status_code in (302, 404)
    assert not PageAnswer.objects.exists()


@spec("ELIC-38", "2026/ELI-08")
def test_changed_link_is_not_valid(link: str, ann: User) -> None:
    browser = browser_of(ann)
    start, token = link.rstrip("/").rsplit("/", 1)
    for place in range(0, len(token), 7):
        other = "A" if token[place] != "A" else "B"
        changed = f"{start}/{token[:place]}{other}{token[place + 1 :]}/"
        assert browser.post(changed, VALID).status_code == 404
    assert not PageAnswer.objects.exists()


@spec("ELIC-32", "2026/ELI-07")
def test_link_contains_nothing_readable(link: str, ann: User) -> None:
    token = link.rstrip("/").rsplit("/", 1)[1]
    decoded = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for text in ("bank", "BankForm", "script", f'"{ann.pk}"'):
        assert text not in token
        assert text.encode() not in decoded


@spec("ELIC-38")
def test_link_of_one_page_is_not_valid_for_another(link: str, ann: User) -> None:
    token = link.rstrip("/").rsplit("/", 1)[1]
    assert browser_of(ann).post(f"/connect/{token}/").status_code == 404
    assert not PageAnswer.objects.exists()


def test_link_is_used_once(link: str, ann: User) -> None:
    browser = browser_of(ann)
    assert "Thank you" in browser.post(link, VALID).text
    again = browser.post(link, {**VALID, "password": "other"})
    assert again.status_code == 409
    row = PageAnswer.objects.get()
    assert row.content["data"]["password"] == ["tea pot"]
    assert "csrfmiddlewaretoken" not in row.content["data"]
    assert "id_password" not in browser.get(link).text


def test_expired_link_is_not_valid(link: str, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    later = timezone.now() + timedelta(seconds=61)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert links.read(link.rstrip("/").rsplit("/", 1)[1]) is None


def test_invalid_form_is_shown_again_and_stores_nothing(link: str, ann: User) -> None:
    response = browser_of(ann).post(link, {**VALID, "password": "x"})
    assert response.status_code == 200
    assert response.context["form"].errors
    assert not PageAnswer.objects.exists()


def test_foreign_page_cannot_answer(link: str, ann: User) -> None:
    browser = browser_of(ann, enforce_csrf_checks=True)
    foreign = {"origin": "https://evil.example"}
    assert browser.post(link, VALID, headers=foreign).status_code == 403
    assert browser.post(link, {"decline": "1"}).status_code == 403
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(link).text)
    assert found is not None
    assert "Thank you" in browser.post(link, {**VALID, "csrfmiddlewaretoken": found[1]}).text


@pytest.mark.parametrize("data", [VALID, {"decline": "1"}], ids=["answer", "decline"])
def test_csrf_is_checked_without_the_middleware_of_the_site(
    data: dict[str, Any], link: str, ann: User, settings: Any
) -> None:
    settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if "Csrf" not in each]
    assert browser_of(ann, enforce_csrf_checks=True).post(link, data).status_code == 403
    assert not PageAnswer.objects.exists()


def test_page_is_escaped_and_protected(link: str, ann: User) -> None:
    response = browser_of(ann).get(link)
    assert "<script>alert" not in response.text
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["referrer-policy"] == "same-origin"
    assert "no-store" in response.headers["cache-control"]
    assert 'value="tea' not in response.text


@spec("ELIC-25", "2026/ELI-11")
def test_answer_is_read_by_its_user_only(link: str, ann: User, eve: User) -> None:
    browser_of(ann).post(link, VALID)
    assert PageAnswer.objects.of("x" * 22, eve) is None
    assert PageAnswer.objects.of("x" * 22, ann) is not None


def test_prune_deletes_expired_answers(link: str, ann: User, capsys: Any) -> None:
    browser_of(ann).post(link, VALID)
    call_command("mcp_prune")
    assert PageAnswer.objects.exists()
    PageAnswer.objects.update(expires_at=timezone.now())
    call_command("mcp_prune")
    assert not PageAnswer.objects.exists()
    assert "Deleted 1 answers of elicitation pages." in capsys.readouterr().out


def test_migrations_are_complete() -> None:
    call_command("makemigrations", "django_mcp_elicitation", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize(("timeout", "least"), [(1.0, 600), (900.0, 900)])
async def test_link_is_valid_as_long_as_a_retry_or_the_handler_waits(
    ann: User, timeout: float, least: int
) -> None:
    """A call may be repeated for ten minutes, whatever the handler waits for."""
    urls: list[str] = []
    server = bank()

    @server.tool
    async def ask(frame: Frame) -> str:
        await aelicit_page(frame, MESSAGE, "connect", timeout=timeout)
        return "never"

    def answer(request: Any) -> Any:
        urls.append(request["url"])
        return decline()

    async with Client(server, version=SESSION, user=ann, elicitation=answer) as client:
        await client.call_tool("ask")

    link = links.read(urls[0].rstrip("/").rpartition("/")[2])
    assert link is not None
    left = link.expires - timezone.now().timestamp()
    assert least - SECONDS <= left <= least


def tenant_of(request: Any) -> str | None:
    """The tenant of a host such as ``one.example.org``."""
    name, _, rest = request.get_host().partition(".")
    return name if rest == "example.org" else None


@pytest.mark.parametrize(
    ("tenant", "host", "status"),
    [
        ("", "testserver", 200),
        ("one", "one.example.org", 200),
        ("one", "two.example.org", 404),
        ("one", "testserver", 404),
        ("", "one.example.org", 404),
    ],
)
def test_link_is_valid_at_the_tenant_of_its_user(
    ann: User, settings: Any, configure: Any, tenant: str, host: str, status: int
) -> None:
    settings.ALLOWED_HOSTS = [".example.org", "testserver"]
    configure(BASE_URL="https://bank.example", TENANT=f"{__name__}.tenant_of")
    made = links.Link(
        id="y" * 22,
        user=str(ann.pk),
        server="The bank",
        message="Pay",
        view="django_mcp_elicitation:form",
        form="tests.contrib.url_elicitation.pages_of_tests:BankForm",
        expires=timezone.now().timestamp() + 60,
        tenant=tenant,
    )
    page = f"/elicitation/form/{links.token_of(made)}/"
    assert browser_of(ann).get(page, headers={"host": host}).status_code == status


def test_answer_is_stored_where_times_have_no_time_zone(ann: User, settings: Any) -> None:
    settings.USE_TZ = False
    browser = browser_of(ann)

    assert "Thank you" in browser.post(link_of(ann, "BankForm", "Pay"), VALID).text

    row = PageAnswer.objects.get()
    assert timezone.is_naive(row.expires_at)
    assert (
        timezone.now()
        < row.expires_at
        <= timezone.now() + timedelta(seconds=request_state.LIFETIME)
    )
