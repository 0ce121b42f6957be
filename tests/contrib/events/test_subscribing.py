"""events/subscribe and events/unsubscribe: webhooks of a caller, and what ends them."""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone

from django_mcp import Frame, Server
from django_mcp.contrib.events import (
    Event,
    errors,
    event,
    extension,
    interest,
    occurrences,
    recipients,
    webhook_requests,
)
from django_mcp.contrib.events.methods import subscribing
from django_mcp.contrib.events.models import Interest, Occurrence, Status, Subscription
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.testing import Client, ErrorResponse
from example_site.helpdesk.models import Customer, Ticket
from tests.contrib.events.conftest import TicketData, close, ticket
from tests.spec import spec

pytestmark = pytest.mark.django_db(transaction=True)

URL = "https://hooks.example.com/mcp"


def secret(byte: bytes = b"s", length: int = 32) -> str:
    return f"whsec_{b64encode(byte * length).decode()}"


@pytest.fixture(autouse=True)
def challenged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Receivers that answer the challenge; returns the URLs that were challenged."""
    urls: list[str] = []

    async def verify(url: str, secret: str, subscription_id: str) -> None:
        if "silent" in url:
            raise errors.CallbackEndpointError("challenge_failed")
        urls.append(url)

    monkeypatch.setattr(webhook_requests, "verify", verify)
    return urls


def params(name: str = "note.added", **changes: Any) -> dict[str, Any]:
    delivery = {"mode": "webhook", "url": URL, "secret": secret(), **changes.pop("delivery", {})}
    return {"name": name, "delivery": delivery, **changes}


async def subscribed(client: Client, name: str = "note.added", **changes: Any) -> dict[str, Any]:
    return await client.request("events/subscribe", params(name, **changes))


async def refused(client: Client, name: str = "note.added", **changes: Any) -> ErrorResponse:
    with pytest.raises(ErrorResponse) as caught:
        await subscribed(client, name, **changes)
    return caught.value


async def following(row: Subscription) -> list[Occurrence]:
    read = sync_to_async(occurrences.after)
    return list((await read(row.server, row.event, row.position, 10)).occurrences)


async def bodies(row: Subscription) -> list[Any]:
    return await recipients.bodies(row, await following(row))


@spec("EV-43", "EV-44")
async def test_subscription_is_stored_and_refreshed_in_place(
    server: Server, noted: Event, ann: User, challenged: list[str]
) -> None:
    async with Client(server, user=ann) as client:
        first = await subscribed(client, arguments={"desk": "a"}, ttlMs=3_600_000)
        row = await Subscription.objects.aget()
        again = await subscribed(client, arguments={"desk": "a"}, delivery={"secret": secret(b"n")})
    renewed = await Subscription.objects.aget()
    assert first["id"] == again["id"] == row.id
    assert first["truncated"] is False
    assert first["deliveryStatus"]["active"] is True
    assert datetime.fromisoformat(first["refreshBefore"]) == row.expires_at
    assert row.secrets() == [secret()]
    assert renewed.secrets() == [secret(b"n"), secret()]
    assert secret() not in row.secret
    assert renewed.expires_at != row.expires_at
    # A principal is verified once at a URL.
    assert challenged == [URL]


async def test_other_arguments_url_or_caller_are_another_subscription(
    server: Server, noted: Event, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        ids = [
            (await subscribed(client))["id"],
            (await subscribed(client, arguments={"desk": "a"}))["id"],
            (await subscribed(client, delivery={"url": f"{URL}/2"}))["id"],
        ]
    async with Client(server, user=bob) as client:
        ids.append((await subscribed(client))["id"])
    assert len({*ids}) == 4


@spec("EV-40")
async def test_anonymous_caller_has_no_webhooks(server: Server, noted: Event) -> None:
    async with Client(server) as client:
        assert (await refused(client)).code == -32012
        with pytest.raises(ErrorResponse) as caught:
            await client.request("events/unsubscribe", params())
    assert caught.value.code == -32012


@spec("EV-41")
@pytest.mark.parametrize(
    "delivery",
    [
        {"url": "http://hooks.example.com/"},
        {"url": "https://user@hooks.example.com/"},
        {"url": "https:///path"},
        {"secret": "whsec_c2hvcnQ="},
        {"secret": secret(length=65)},
        {"secret": "plain"},
        {"secret": secret().replace("whsec_", "")},
        {"secret": None},
    ],
)
async def test_url_and_secret_have_a_form(
    server: Server, noted: Event, ann: User, delivery: dict[str, Any]
) -> None:
    async with Client(server, user=ann) as client:
        assert (await refused(client, delivery=delivery)).code == -32602
    assert not await Subscription.objects.aexists()


async def test_receiver_that_does_not_answer_is_not_subscribed(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        error = await refused(client, delivery={"url": "https://silent.example.com/"})
    assert error.code == -32015
    assert error.data == {"reason": "challenge_failed"}
    assert not await Subscription.objects.aexists()


async def test_time_is_granted_within_bounds(server: Server, noted: Event, ann: User) -> None:
    token, _ = await sync_to_async(PersonalAccessToken.objects.issue)(ann, "hooks")
    server.authenticators = ["django_mcp.auth.token.TokenAuthentication"]
    asked: list[tuple[dict[str, Any], timedelta]] = [
        ({"ttlMs": 1}, subscribing.MIN_TTL),
        ({"ttlMs": 10**15}, subscribing.UNASKED_TTL),
        ({"ttlMs": None}, subscribing.UNASKED_TTL),
        ({}, subscribing.UNASKED_TTL),
    ]
    async with Client(server, user=ann) as client:
        for wish, granted in asked:
            result = await subscribed(client, **wish)
            left = datetime.fromisoformat(result["refreshBefore"]) - timezone.now()
            assert granted - timedelta(minutes=1) < left <= granted
    assert token.pk


@spec("cost-24", "EV-40")
async def test_caller_has_a_bounded_number_of_webhooks(
    server: Server, noted: Event, ann: User, bob: User, configure: Any
) -> None:
    configure(EVENTS_MAX_SUBSCRIPTIONS=2)
    async with Client(server, user=ann) as client:
        for number in range(2):
            await subscribed(client, arguments={"desk": str(number)})
        error = await refused(client)
        # A refresh is no further one.
        await subscribed(client, arguments={"desk": "0"})
    async with Client(server, user=bob) as client:
        await subscribed(client)
    assert error.code == -32013
    assert error.data == {"limit": "subscriptions", "max": 2}


async def test_large_arguments_are_refused(server: Server, noted: Event, ann: User) -> None:
    async with Client(server, user=ann) as client:
        assert (await refused(client, arguments={"desk": "x" * 10_000})).code == -32602


async def test_subscription_begins_now_or_at_a_cursor(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        poll = await client.request("events/poll", {"name": "note.added", "cursor": None})
        await sync_to_async(noted.emit)({"desk": "a"}, id="before")
        await subscribed(client)
        row = await Subscription.objects.aget()
        assert await following(row) == []
        replayed = await subscribed(client, cursor=poll["cursor"])
        row = await Subscription.objects.aget()
        assert [each.event_id for each in await following(row)] == ["before"]
        continued = await client.request(
            "events/poll", {"name": "note.added", "cursor": replayed["cursor"]}
        )
    assert [each["eventId"] for each in continued["events"]] == ["before"]
    assert replayed["cursor"]
    assert occurrences.cursor_of_subscription(row, row.position)


@spec("isolation-24", "EV-43")
async def test_unsubscribing_ends_own_subscriptions_only(
    server: Server, noted: Event, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as of_ann, Client(server, user=bob) as of_bob:
        await subscribed(of_ann)
        with pytest.raises(ErrorResponse) as caught:
            await of_bob.request("events/unsubscribe", params())
        assert (caught.value.code, caught.value.data) == (-32011, {"kind": "subscription"})
        assert await Subscription.objects.acount() == 1
        await of_ann.request("events/unsubscribe", params())
        with pytest.raises(ErrorResponse):
            await of_ann.request("events/unsubscribe", params())
    assert not await Subscription.objects.aexists()


async def test_subscription_is_an_interest_as_long_as_it_lives(
    server: Server, noted: Event, ann: User
) -> None:
    emit = sync_to_async(noted.emit)
    assert await emit({"desk": "a"}) is None
    async with Client(server, user=ann) as client:
        await subscribed(client)
        assert await emit({"desk": "a"}) is not None
        await Subscription.objects.aupdate(expires_at=timezone.now() - timedelta(seconds=1))
        assert await emit({"desk": "a"}) is None
    assert "1 subscriptions" in await sync_to_async(extension.prune)()
    assert not await Subscription.objects.aexists()


# What a receiver is sent.


async def test_receiver_sees_what_its_caller_may_see(
    server: Server, closed: Event, customer: Customer, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        await subscribed(client, "ticket.closed")
    own = await sync_to_async(ticket)(customer, ann)
    others = await sync_to_async(ticket)(customer, bob)
    for each in (own, others):
        await sync_to_async(close)(each)
    row = await Subscription.objects.aget()
    first, second = await bodies(row)
    assert first["data"] == {"number": own.pk, "subject": own.subject}
    assert first["name"] == "ticket.closed"
    assert second is None
    await Ticket.objects.filter(pk=own.pk).aupdate(assignee=bob)
    assert (await bodies(row))[0] is None


async def test_queries_of_events_run_within_around_call(
    server: Server, ann: User, customer: Customer
) -> None:
    here = threading.local()
    seen: list[str | None] = []

    @server.hook
    def around_call(frame: Frame) -> Any:
        @contextmanager
        def tenant() -> Iterator[None]:
            here.tenant = frame.user.username
            try:
                yield
            finally:
                here.tenant = None

        return tenant()

    made = event("ticket.saved", model=Ticket)

    @made
    class Saved:
        def get_queryset(self, frame: Frame) -> Any:
            seen.append(getattr(here, "tenant", None))
            return Ticket.objects.all()

        def payload(self, ticket: Ticket, frame: Frame) -> TicketData:
            return TicketData(number=ticket.pk, subject=ticket.subject)

    made.server = server
    made.__mcp_register__(server)
    async with Client(server, user=ann, sync_execution="threads") as client:
        await subscribed(client, "ticket.saved")
        first = await client.request("events/poll", {"name": "ticket.saved"})
        await sync_to_async(ticket)(customer, ann)
        params = {"name": "ticket.saved", "cursor": first["cursor"]}
        assert len((await client.request("events/poll", params))["events"]) == 1
    assert len(await bodies(await Subscription.objects.aget())) == 1
    assert seen == ["ann", "ann"]


async def ended(row: Subscription) -> dict[str, Any]:
    with pytest.raises(recipients.Terminated) as caught:
        await bodies(row)
    return caught.value.to_json()


async def test_lost_permission_ends_the_subscription(
    server: Server, closed: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        await subscribed(client, "ticket.closed")
    row = await Subscription.objects.aget()
    assert await bodies(row) == []
    await ann.user_permissions.aclear()
    assert (await ended(row))["data"] == {"kind": "event"}


async def test_account_that_is_not_active_ends_the_subscription(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        await subscribed(client)
    row = await Subscription.objects.aget()
    await User.objects.filter(pk=ann.pk).aupdate(is_active=False)
    assert (await ended(row))["code"] == -32012


async def test_changed_row_ends_the_subscription(
    server: Server, noted: Event, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        await subscribed(client)
    row = await Subscription.objects.aget()
    row.user_key = str(bob.pk)
    assert (await ended(row))["code"] == -32012


async def test_removed_event_and_changed_arguments_end_the_subscription(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        await subscribed(client)
    row = await Subscription.objects.aget()
    row.arguments = json.dumps({"table": 1})
    with pytest.raises(LookupError, match="or its arguments"):
        await bodies(row)
    row.refreshed_at -= timedelta(hours=2)
    assert (await ended(row))["data"] == {"feature": "arguments", "reason": "schema_changed"}
    server.components.remove("event", noted.name)
    assert (await ended(row))["data"] == {"kind": "event"}


@spec("identity-27")
async def test_revoked_token_ends_the_subscription(server: Server, noted: Event, ann: User) -> None:
    server.authenticators = ["django_mcp.auth.token.TokenAuthentication"]
    token, text = await sync_to_async(PersonalAccessToken.objects.issue)(ann, "hooks")
    headers = {"Authorization": f"Bearer {text}"}
    async with Client(server, transport="http", headers=headers) as client:
        result = await subscribed(client)
    row = await Subscription.objects.aget()
    left = datetime.fromisoformat(result["refreshBefore"]) - timezone.now()
    assert left > subscribing.UNASKED_TTL
    assert await bodies(row) == []
    await sync_to_async(token.revoke)()
    assert (await ended(row))["code"] == -32012


async def test_fewer_scopes_end_the_subscription_of_a_token(server: Server, ann: User) -> None:
    from django_mcp.contrib.events import event
    from tests.contrib.events.conftest import Note

    event("own.note", payload=Note, scopes=["notes"], server=server).__mcp_register__(server)
    server.authenticators = ["django_mcp.auth.token.TokenAuthentication"]
    token, text = await sync_to_async(PersonalAccessToken.objects.issue)(
        ann, "hooks", scopes=["notes"]
    )
    headers = {"Authorization": f"Bearer {text}"}
    async with Client(server, transport="http", headers=headers) as client:
        await subscribed(client, "own.note")
    row = await Subscription.objects.aget()
    assert await bodies(row) == []
    await PersonalAccessToken.objects.filter(pk=token.pk).aupdate(scopes=[])
    assert (await ended(row))["code"] == -32012


async def test_ended_subscription_can_be_made_again(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        await subscribed(client)
        row = await Subscription.objects.aget()
        await sync_to_async(row.terminate)({"code": 1, "message": "over"})
        await row.arefresh_from_db()
        assert (row.status, json.loads(row.end_error)["code"]) == (Status.ENDING, 1)
        await subscribed(client)
    await row.arefresh_from_db()
    assert (row.status, row.end_error) == (Status.ACTIVE, "")


async def test_first_subscriber_is_answered_when_all_processes_know(
    server: Server, noted: Event, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(interest, "FRESH", 30.0)
    interest.HERE.forget()
    async with Client(server, user=ann) as client:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "sleep", sleep)
            await subscribed(client)
            first = waited.count(30.0)
            await subscribed(client, arguments={"desk": "a"})
            second = waited.count(30.0)
            await Interest.objects.aupdate(began_at=timezone.now() - timedelta(seconds=90))
            await subscribed(client, arguments={"desk": "b"})
    assert first == 1
    assert second == 2
    assert waited.count(30.0) == 2


# Whether events are missing after a cursor.


async def test_subscription_that_was_away_while_nobody_was_interested_is_told(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        cursor = (await subscribed(client))["cursor"]
        await Subscription.objects.aupdate(expires_at=timezone.now() - timedelta(seconds=1))
        assert await sync_to_async(noted.emit)({"desk": "a"}) is None
        again = await subscribed(client, cursor=cursor)
        refreshed = await subscribed(client, cursor=again["cursor"])
    assert again["truncated"]
    assert not refreshed["truncated"]


async def test_subscription_that_is_refreshed_in_time_misses_nothing(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        cursor = (await subscribed(client))["cursor"]
        await sync_to_async(extension.prune)()
        await sync_to_async(noted.emit)({"desk": "a"}, id="kept")
        assert not (await subscribed(client, cursor=cursor))["truncated"]
    row = await Subscription.objects.aget()
    assert [each.event_id for each in await following(row)] == ["kept"]


async def test_poll_goes_on_with_the_interest_of_a_webhook(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        cursor = (await subscribed(client))["cursor"]
        await sync_to_async(noted.emit)({"desk": "a"}, id="kept")
        result = await client.request("events/poll", {"name": "note.added", "cursor": cursor})
    assert [each["eventId"] for each in result["events"]] == ["kept"]
    assert not result["truncated"]


async def test_subscription_of_a_type_without_a_row_of_interest_may_miss_events(
    server: Server, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        cursor = (await subscribed(client))["cursor"]
        await Interest.objects.all().adelete()
        assert (await subscribed(client, cursor=cursor))["truncated"]
