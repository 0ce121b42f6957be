"""Deliveries to webhooks: at least once and in order, repeated, abandoned, and ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, transaction
from django.utils import timezone

from django_mcp import Frame, Server, registry
from django_mcp.contrib.events import (
    Event,
    delivery,
    event,
    occurrences,
    recipients,
    webhook_requests,
)
from django_mcp.contrib.events.models import (
    Delivery,
    DeliveryStatus,
    LastError,
    Occurrence,
    Status,
    Subscription,
)
from django_mcp.contrib.events.testing import FakeReceiver, new_secret
from django_mcp.runtime import background
from django_mcp.tasks import execution
from django_mcp.testing import Client
from example_site.helpdesk.models import Customer
from tests.contrib.events.conftest import PUBLIC, Note, close, ticket
from tests.spec import spec

pytestmark = pytest.mark.django_db(transaction=True)

WAKE = delivery.wake


@pytest.fixture
def receiver(configure: Any) -> Iterator[FakeReceiver]:
    with FakeReceiver() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def by_hand(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver when the test says so, for a server of the site."""
    monkeypatch.setattr(delivery, "wake", lambda: None)
    monkeypatch.setattr(registry.registered, "servers", {server.name: server})


async def subscribed(
    server: Server, user: User, receiver: FakeReceiver, name: str = "note.added", **changes: Any
) -> dict[str, Any]:
    target = {"mode": "webhook", "url": receiver.url, "secret": receiver.secret}
    async with Client(server, user=user) as client:
        params = {"name": name, "delivery": target, **changes}
        return await client.request("events/subscribe", params)


@sync_to_async
def emit(event: Event, *texts: str, desk: str = "a") -> None:
    for text in texts:
        event.emit({"desk": desk, "text": text})


@sync_to_async
def change(**values: Any) -> None:
    Subscription.objects.update(**values)


async def row() -> Subscription:
    return await Subscription.objects.aget()


def texts(receiver: FakeReceiver) -> list[str]:
    return [body["data"]["text"] for body in receiver.events]


async def statuses() -> list[tuple[str, int, str]]:
    columns = ("status", "attempts", "last_error")
    return [each async for each in Delivery.objects.order_by("id").values_list(*columns)]


@spec("EV-50", "EV-52")
async def test_events_are_delivered_in_order_with_the_headers(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    result = await subscribed(server, ann, receiver)
    await emit(noted, "one", "two", "three")
    await delivery.run()

    assert texts(receiver) == ["one", "two", "three"]
    assert receiver.refused == []
    first = receiver.requests[1]
    assert first.id == first.body["eventId"]
    assert first.subscription == result["id"]
    assert first.headers["content-type"] == "application/json"
    assert await statuses() == [("delivered", 1, "")] * 3
    subscription = await row()
    assert subscription.last_delivery_at is not None
    assert (subscription.lease_owner, subscription.lease_until) == ("", None)


async def test_nothing_is_sent_twice_and_nothing_without_work(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await delivery.run()
    await delivery.run()

    assert texts(receiver) == ["one"]
    assert not await sync_to_async(delivery.has_work)()


async def test_event_of_a_transaction_that_is_rolled_back_is_not_delivered(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)

    @sync_to_async
    def fail() -> None:
        with transaction.atomic():
            noted.emit({"desk": "a", "text": "one"})
            transaction.set_rollback(True)

    await fail()
    await emit(noted, "two")
    await delivery.run()

    assert texts(receiver) == ["two"]


async def test_event_that_the_subscriber_may_not_see_is_passed_over(
    server: Server,
    closed: Event,
    ann: User,
    bob: User,
    receiver: FakeReceiver,
    customer: Customer,
) -> None:
    await subscribed(server, ann, receiver, "ticket.closed")

    @sync_to_async
    def close_tickets() -> None:
        for assignee in (bob, ann, bob):
            close(ticket(customer, assignee, f"of {assignee.username}"))

    await close_tickets()
    await delivery.run()

    assert [body["data"]["subject"] for body in receiver.events] == ["of ann"]
    last = await sync_to_async(occurrences.last_position)()
    assert (await row()).position == last


# Attempts that fail.


@spec("EV-53")
async def test_failed_delivery_is_repeated_later_and_holds_up_those_that_follow(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    receiver.status = 500
    await delivery.run()

    subscription = await row()
    assert (subscription.attempts, subscription.last_error) == (1, LastError.HTTP_5XX)
    assert subscription.failed_since is not None
    assert subscription.next_attempt_at is not None
    wait = subscription.next_attempt_at - timezone.now()
    assert timedelta(seconds=5) < wait < timedelta(seconds=15)
    assert await statuses() == [("pending", 1, "http_5xx")]
    await delivery.run()
    assert len(receiver.requests) == 2  # The challenge, and one attempt.

    receiver.status = 200
    await change(next_attempt_at=None)
    await delivery.run()
    assert texts(receiver) == ["one", "two"]
    assert await statuses() == [("delivered", 2, ""), ("delivered", 1, "")]
    subscription = await row()
    assert (subscription.attempts, subscription.failed_since) == (0, None)


@spec("EV-51")
async def test_each_attempt_is_signed_anew(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    receiver.status = 500
    await delivery.run()
    moment = datetime.now(UTC) + timedelta(seconds=60)

    class Later:
        @staticmethod
        def now(_: Any) -> Any:
            return moment

    monkeypatch.setattr(webhook_requests, "datetime", Later)
    await change(next_attempt_at=None)
    await delivery.run()

    first, second = receiver.requests[1:]
    assert first.id == second.id
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


@spec("EV-53")
async def test_delivery_is_abandoned_after_the_last_attempt(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    receiver.status = lambda received: 500 if received.body["data"]["text"] == "one" else 200
    for _ in range(len(delivery.BACKOFF) + 1):
        await change(next_attempt_at=None)
        await delivery.run()

    assert texts(receiver) == ["two"]
    attempts = len(delivery.BACKOFF) + 1
    assert await statuses() == [("abandoned", attempts, "http_5xx"), ("delivered", 1, "")]


@spec("EV-53")
@pytest.mark.parametrize("status", [410, 413])
async def test_receiver_may_refuse_one_delivery(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, status: int
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    receiver.status = lambda received: status if received.body["data"]["text"] == "one" else 200
    await delivery.run()

    assert texts(receiver) == ["two"]
    assert await statuses() == [("abandoned", 1, "http_4xx"), ("delivered", 1, "")]
    assert (await row()).status == Status.ACTIVE


@spec("EV-54")
async def test_body_that_is_too_large_is_not_sent(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "x" * webhook_requests.MAX_BODY, "two")
    await delivery.run()

    assert texts(receiver) == ["two"]
    assert await statuses() == [("abandoned", 0, ""), ("delivered", 1, "")]
    assert (await row()).failed_since is None


@pytest.mark.parametrize("name", ["заказ-5", "a\nb"])
async def test_stored_event_with_an_id_that_no_header_can_have_is_not_sent(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, name: str
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    await Occurrence.objects.filter(data__contains="one").aupdate(event_id=name)
    await delivery.run()

    assert texts(receiver) == ["two"]
    assert await statuses() == [("abandoned", 0, ""), ("delivered", 1, "")]


async def test_subscription_for_which_nothing_succeeds_is_suspended(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    receiver.status = 500
    long_ago = timezone.now() - delivery.SUSPEND_AFTER - timedelta(hours=1)
    await change(attempts=len(delivery.BACKOFF), failed_since=long_ago)
    await delivery.run()
    assert (await row()).status == Status.SUSPENDED

    receiver.status = 200
    await subscribed(server, ann, receiver)
    await delivery.run()
    assert texts(receiver) == ["two"]


async def test_receiver_that_is_away_has_an_error_without_details(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await change(url="http://127.0.0.1:9/hook")
    await emit(noted, "one")
    await delivery.run()

    assert (await row()).last_error == LastError.CONNECTION_REFUSED


@spec("EV-56")
async def test_address_is_checked_at_each_delivery(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, configure: Any
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    configure()  # The host may not be private any more.
    await delivery.run()

    assert receiver.events == []
    assert (await row()).last_error == LastError.CONNECTION_REFUSED


@spec("EV-56")
async def test_redirect_is_not_followed(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    receiver.status = 302
    await delivery.run()

    assert (await row()).last_error == LastError.HTTP_4XX


# Leases.


async def test_leased_subscription_is_left_to_its_deliverer(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await change(lease_owner="another", lease_until=timezone.now() + timedelta(seconds=30))
    await delivery.run()
    assert receiver.events == []

    # The other process has died.
    await change(lease_until=timezone.now() - timedelta(seconds=1))
    await delivery.run()
    assert texts(receiver) == ["one"]


async def test_one_caller_leaves_deliveries_at_once_to_others(
    server: Server, noted: Event, ann: User, bob: User, receiver: FakeReceiver
) -> None:
    desks = [str(number) for number in range(delivery.CONCURRENCY)]
    for desk in desks:
        await subscribed(server, ann, receiver, arguments={"desk": desk})
    await subscribed(server, bob, receiver, arguments={"desk": desks[0]})
    for desk in desks:
        await emit(noted, "one", desk=desk)

    claimed = await sync_to_async(delivery.claim)(delivery.CONCURRENCY)
    further = await sync_to_async(delivery.claim)(1, claimed)

    of_ann = [row for row in claimed if row.user_key == str(ann.pk)]
    assert (len(of_ann), len(claimed)) == (delivery.MAX_OF_CALLER, delivery.MAX_OF_CALLER + 1)
    assert further == []


async def test_several_deliverers_send_each_event_once_and_in_order(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    numbers = [str(number) for number in range(60)]
    await emit(noted, *numbers)
    await asyncio.gather(*(delivery.Deliverer().run() for _ in range(3)))

    assert texts(receiver) == numbers


async def test_deliverer_that_lost_its_lease_changes_nothing(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")

    def take_over(_: Any) -> int:
        Subscription.objects.update(lease_owner="another")
        return 200

    receiver.status = take_over
    await delivery.run()

    assert texts(receiver) == ["one"]
    assert await statuses() == []
    assert (await row()).lease_owner == "another"


async def test_fault_of_the_site_does_not_repeat_at_once(
    server: Server,
    noted: Event,
    ann: User,
    receiver: FakeReceiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: Any) -> Any:
        raise RuntimeError("A fault")

    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    monkeypatch.setattr(recipients, "bodies", fail)
    await delivery.run()

    subscription = await row()
    assert "A fault" in caplog.text
    assert subscription.next_attempt_at is not None
    assert subscription.next_attempt_at > timezone.now() + timedelta(seconds=30)
    assert subscription.lease_owner == ""


# Cursors, gaps, ends.


@spec("EV-55")
async def test_cursor_of_a_body_continues_after_it(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two", "three")
    await delivery.run()
    cursor = receiver.events[0]["cursor"]
    async with Client(server, user=ann) as client:
        polled = await client.request("events/poll", {"name": "note.added", "cursor": cursor})

    assert [each["data"]["text"] for each in polled["events"]] == ["two", "three"]


@spec("EV-57")
async def test_receiver_is_told_of_a_gap_before_what_follows(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, configure: Any
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await sync_to_async(occurrences.number)()
    await Occurrence.objects.aupdate(created_at=timezone.now() - timedelta(days=30))
    await sync_to_async(occurrences.prune)()
    await emit(noted, "two")
    await delivery.run()

    assert [body["type"] for body in receiver.controls] == ["gap"]
    assert receiver.controls[0]["cursor"]
    assert receiver.requests[1].id.startswith("msg_gap_")
    assert texts(receiver) == ["two"]
    await emit(noted, "three")
    await delivery.run()
    assert len(receiver.controls) == 1


@spec("EV-42", "EV-57")
async def test_receiver_is_told_once_that_access_was_revoked(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    ann.is_active = False
    await ann.asave()
    await delivery.run()

    assert receiver.events == []
    assert [body["type"] for body in receiver.controls] == ["terminated"]
    assert receiver.controls[0]["error"]["code"] == -32012
    assert (await row()).status == Status.ENDED
    await emit(noted, "two")
    await delivery.run()
    assert len(receiver.controls) == 1


async def test_permission_that_fails_does_not_end_the_subscription(
    server: Server, ann: User, receiver: FakeReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception] = []

    def permitted(frame: Frame) -> bool:
        if errors:
            raise errors.pop()
        return True

    guarded = event("note.added", payload=Note, permission=permitted, server=server)
    guarded.__mcp_register__(server)
    await subscribed(server, ann, receiver)
    await emit(guarded, "one")
    for error in (OperationalError("away"), KeyError("a mistake")):
        errors.append(error)
        await delivery.run()
        assert (await row()).status == Status.ACTIVE
        await change(next_attempt_at=None, lease_until=None)
    await delivery.run()
    assert texts(receiver) == ["one"]

    errors.append(PermissionDenied())
    await emit(guarded, "two")
    await delivery.run()
    assert [body["type"] for body in receiver.controls] == ["terminated"]


@pytest.mark.parametrize("knows_server", [False, True])
async def test_event_of_another_release_ends_after_the_time_of_a_deployment(
    server: Server,
    noted: Event,
    ann: User,
    receiver: FakeReceiver,
    monkeypatch: pytest.MonkeyPatch,
    knows_server: bool,
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    known = {"desk": Server("desk", path="/desk", authenticators=PUBLIC)} if knows_server else {}
    monkeypatch.setattr(registry.registered, "servers", known)
    monkeypatch.setattr(registry.registered, "remembered", {})
    await delivery.run()
    assert (await row()).status == Status.ACTIVE

    await change(next_attempt_at=None, refreshed_at=timezone.now() - timedelta(hours=2))
    await delivery.run()
    assert [body["error"]["code"] for body in receiver.controls] == [-32011]
    assert (await row()).status == Status.ENDED


async def test_end_that_nobody_hears_is_given_up(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await sync_to_async((await row()).terminate)({"code": -32012, "message": "Forbidden"})
    receiver.status = 500
    for _ in range(len(delivery.BACKOFF) + 1):
        assert (await row()).status == Status.ENDING
        await change(next_attempt_at=None)
        await delivery.run()

    assert (await row()).status == Status.ENDED


@spec("EV-46")
async def test_former_secret_signs_as_well_for_a_while(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    old = receiver.secret
    receiver.secret = new_secret()
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await delivery.run()
    receiver.secret = old
    await emit(noted, "two")
    await delivery.run()

    assert texts(receiver) == ["one", "two"]
    await change(old_secret_until=timezone.now())
    await emit(noted, "three")
    await delivery.run()
    assert texts(receiver) == ["one", "two"]
    assert receiver.refused == ["No matching signature found"]


@pytest.mark.parametrize("column", ["secret", "caller"])
async def test_subscription_that_cannot_be_decrypted_ends_without_a_message(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, column: str
) -> None:
    await subscribed(server, ann, receiver)
    await change(**dict.fromkeys({"secret", column}, "of another key"))
    await emit(noted, "one")
    await delivery.run()

    assert (await row()).status == Status.ENDED
    assert len(receiver.requests) == 1  # The challenge.


async def test_subscription_is_renewed_after_a_change_of_the_secret_key(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, settings: Any
) -> None:
    await subscribed(server, ann, receiver)
    receiver.secret = new_secret()
    await subscribed(server, ann, receiver)
    settings.SECRET_KEY = "another" * 10
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await delivery.run()

    assert texts(receiver) == ["one"]


# By hand.


async def test_abandoned_delivery_is_sent_again_with_the_cursor_of_now(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    receiver.status = lambda received: 410 if received.body["data"]["text"] == "one" else 200
    await delivery.run()
    receiver.status = 200
    chosen = Delivery.objects.filter(status=DeliveryStatus.ABANDONED)
    count = await sync_to_async(delivery.redeliver)(chosen)
    await delivery.run()

    assert count == 1
    assert texts(receiver) == ["two", "one"]
    assert await statuses() == [("delivered", 1, ""), ("delivered", 1, "")]
    async with Client(server, user=ann) as client:
        polled = await client.request(
            "events/poll", {"name": "note.added", "cursor": receiver.events[1]["cursor"]}
        )
    assert polled["events"] == []


async def test_access_that_was_revoked_ends_repetitions(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two", "three")
    await delivery.run()
    receiver.events.clear()
    await sync_to_async(delivery.redeliver)(Delivery.objects.all())

    def revoke(_: Any) -> int:
        User.objects.filter(pk=ann.pk).update(is_active=False)
        return 200

    monkeypatch.setattr(delivery, "FRESH", 0.0)
    receiver.status = revoke
    await delivery.run()

    assert texts(receiver) == ["one"]
    assert [body["type"] for body in receiver.controls] == ["terminated"]


async def test_worker_that_stops_sends_no_further_repetition(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    await delivery.run()
    receiver.events.clear()
    await sync_to_async(delivery.redeliver)(Delivery.objects.all())
    receiver.status = stopping(asyncio.get_running_loop())
    await delivery.run()
    assert texts(receiver) == ["one"]

    await delivery.start()
    receiver.status = 200
    await delivery.run()
    assert texts(receiver) == ["one", "two"]


async def test_delivery_of_a_subscription_that_has_ended_is_not_sent_again(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await delivery.run()
    await sync_to_async((await row()).terminate)()

    assert await sync_to_async(delivery.redeliver)(Delivery.objects.all()) == 0


async def test_repeated_delivery_that_fails_is_abandoned_after_its_own_attempts(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await delivery.run()
    await sync_to_async(delivery.redeliver)(Delivery.objects.all())
    receiver.status = 500
    await delivery.run()
    assert await statuses() == [("pending", 1, "http_5xx")]
    for _ in delivery.BACKOFF:
        await Delivery.objects.aupdate(next_attempt_at=timezone.now())
        await change(next_attempt_at=None)
        await delivery.run()

    assert await statuses() == [("abandoned", len(delivery.BACKOFF) + 1, "http_5xx")]


# Running.


@pytest.fixture
async def started(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The deliverer of a worker that looks at the tables at once, and then when it is woken."""
    monkeypatch.setattr(delivery, "POLL", 0.01)
    await delivery.start()
    yield
    await delivery.stop()
    await asyncio.wait_for(until(lambda: not background.accepted_tasks()), 20)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


async def test_worker_delivers_what_another_process_has_committed(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver, started: None
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await asyncio.wait_for(until(lambda: texts(receiver) == ["one"]), 20)


async def test_commit_wakes_the_deliverer(
    server: Server,
    noted: Event,
    ann: User,
    receiver: FakeReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery, "wake", WAKE)
    monkeypatch.setattr(delivery, "_timer", SimpleNamespace(start=lambda: None))
    await delivery.start()
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await asyncio.wait_for(until(lambda: texts(receiver) == ["one"]), 20)
    await asyncio.wait_for(until(lambda: not background.accepted_tasks()), 20)


def stopping(loop: asyncio.AbstractEventLoop) -> Callable[[Any], int]:
    """Return the status of a receiver whose request ends the deliveries of a worker."""

    def stop(_: Any) -> int:
        asyncio.run_coroutine_threadsafe(delivery.stop(), loop).result(10)
        return 200

    return stop


async def test_worker_that_stops_begins_nothing_more(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    receiver.status = stopping(asyncio.get_running_loop())
    await delivery.run()

    assert texts(receiver) == ["one"]
    assert (await row()).lease_owner == ""
    await delivery.start()
    receiver.status = 200
    await delivery.run()
    assert texts(receiver) == ["one", "two"]


async def test_claim_that_fails_leaves_the_outcome_of_a_running_turn(
    server: Server,
    noted: Event,
    ann: User,
    receiver: FakeReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one", "two")
    arrived = threading.Event()
    may_answer = threading.Event()
    claim = delivery.claim

    def answer(_: Any) -> int:
        arrived.set()
        may_answer.wait(10)
        return 200

    def fail(most: int, running: Sequence[Subscription]) -> list[Subscription]:
        raise OperationalError("database is locked")

    receiver.status = answer
    deliverer = delivery.Deliverer()
    running = asyncio.ensure_future(deliverer.run())
    await until(arrived.is_set)
    monkeypatch.setattr(delivery, "claim", fail)
    failed = asyncio.ensure_future(deliverer.run())
    await failed
    await asyncio.sleep(0.2)
    may_answer.set()
    with pytest.raises(OperationalError):
        await running
    # The turn ends after its request, and the next one goes on.
    assert await statuses() == [("delivered", 1, "")]
    monkeypatch.setattr(delivery, "claim", claim)
    await deliverer.run()
    assert texts(receiver) == ["one", "two"]
    assert len(receiver.requests) == 3


async def test_runner_that_fails_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: str) -> None:
        raise ConnectionError("no broker")

    runner = SimpleNamespace(submit=fail)
    monkeypatch.setattr(delivery, "runners", SimpleNamespace(get=lambda: runner))
    await delivery.submit()

    assert "does not take the delivery of events" in caplog.text


async def test_job_of_the_runner_delivers(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    await subscribed(server, ann, receiver)
    await emit(noted, "one")
    await sync_to_async(execution.run_in_new_loop)(delivery.JOB)

    assert texts(receiver) == ["one"]


def test_command_delivers_what_is_due(
    server: Server, noted: Event, ann: User, receiver: FakeReceiver
) -> None:
    asyncio.run(subscribed(server, ann, receiver))
    noted.emit({"desk": "a", "text": "one"})
    delivery.run_command(once=True)

    assert texts(receiver) == ["one"]
