"""The admin of events, the command mcp_events, and assert_event_sent."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client as Browser
from django.urls import Resolver404, resolve, reverse
from django.utils import timezone

from django_mcp import Server, registry
from django_mcp.contrib.events import Event, interest, occurrences
from django_mcp.contrib.events.models import Delivery, Occurrence, Status, Subscription
from django_mcp.contrib.events.testing import assert_event_sent
from example_site.helpdesk.models import Customer
from tests.contrib.events.conftest import close, ticket

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def registered(server: Server) -> Iterator[Server]:
    registry.registered.servers["desk"] = server
    yield server
    del registry.registered.servers["desk"]


@pytest.fixture
def browser(transactional_db: None) -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_superuser("root"))
    return browser


def subscription(**values: Any) -> Subscription:
    now = timezone.now()
    row = Subscription(
        id="s1", server="desk", event="note.added", principal="user:1", url="https://a.example/",
        created_at=now, refreshed_at=now, verified_at=now, **values,
    )  # fmt: skip
    row.set_secret("whsec_c2VjcmV0")
    row.set_caller({"user_key": ""})
    row.save()
    return row


def test_admin_shows_states_and_no_secrets(browser: Browser) -> None:
    row = subscription(last_error="timeout")
    listed = browser.get(reverse("admin:django_mcp_events_subscription_changelist"))
    assert b"timeout" in listed.content
    page = browser.get(reverse("admin:django_mcp_events_subscription_change", args=[row.pk]))
    assert page.status_code == 200
    assert row.secret.encode() not in page.content
    assert row.caller.encode() not in page.content


def test_event_has_a_page_without_a_form_to_try_it(
    registered: Server, noted: Event, browser: Browser
) -> None:
    key = quote("desk:event:note.added")
    page = browser.get(reverse("admin:django_mcp_component_change", args=[key]))
    tried = browser.get(reverse("admin:django_mcp_component_try", args=[key]))

    assert (page.status_code, tried.status_code) == (200, 404)
    assert "Try it" not in page.content.decode()


def test_admin_does_not_filter_by_what_it_hides(browser: Browser) -> None:
    subscription()
    url = reverse("admin:django_mcp_events_subscription_changelist")
    assert browser.get(url, {"secret__startswith": "a"}).status_code == 400


def test_administrator_ends_a_subscription(browser: Browser) -> None:
    row = subscription()
    url = reverse("admin:django_mcp_events_subscription_changelist")
    browser.post(url, {"action": "end", "_selected_action": [row.pk]})
    row.refresh_from_db()
    assert row.status == Status.ENDED


def test_lists_of_deliveries_and_events_are_shown(browser: Browser, noted: Event) -> None:
    interest.begin("desk", noted.name)
    noted.emit({"desk": "secret desk"}, id="n1")
    occurrences.number()
    occurrence = Occurrence.objects.get()
    Delivery.objects.create(
        subscription=subscription(), occurrence=occurrence, event_id="n1", created_at=timezone.now()
    )
    for name in ("delivery", "occurrence"):
        page = browser.get(reverse(f"admin:django_mcp_events_{name}_changelist"))
        assert b"n1" in page.content
    url = reverse("admin:django_mcp_events_occurrence_change", args=[occurrence.pk])
    assert b"secret desk" not in browser.get(url).content


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("mcp_events", *arguments, stdout=out)
    return out.getvalue()


def test_command_lists_events(registered: Server, noted: Event) -> None:
    subscription()
    assert "note.added  poll, push, webhook  1 webhooks" in run("list")
    (row,) = [each for each in json.loads(run("list", "--json")) if each["server"] == "desk"]
    assert row["subscriptions"] == 1


def test_command_emits_payloads_and_objects(
    registered: Server, noted: Event, closed: Event, customer: Customer, ann: User
) -> None:
    assert "Nobody listens" in run("emit", "note.added", '{"desk": "a"}')
    interest.begin("desk", noted.name)
    interest.begin("desk", closed.name)
    assert "Emitted n1" in run("emit", "note.added", '{"desk": "a"}', "--id", "n1")
    row = ticket(customer, ann)
    assert "Emitted" in run("emit", "ticket.closed", str(row.pk))
    assert Occurrence.objects.count() == 2


def test_command_delivers_what_is_due(registered: Server) -> None:
    assert run("deliver", "--once") == ""


def test_command_explains_what_it_does_not_find(registered: Server, noted: Event) -> None:
    with pytest.raises(CommandError, match=r"Did you mean 'note\.added'"):
        run("emit", "note.aded", "{}")
    with pytest.raises(CommandError, match="no payload|not a payload"):
        run("emit", "note.added", "{}")
    with pytest.raises(CommandError, match="not a payload"):
        run("emit", "note.added", "[" * 100_000)


def test_command_explains_an_id_that_cannot_be_sent(registered: Server, noted: Event) -> None:
    interest.begin("desk", noted.name)
    with pytest.raises(CommandError, match="printable characters of ASCII"):
        run("emit", "note.added", '{"desk": "a"}', "--id", "n\n1")
    assert not Occurrence.objects.exists()


def test_assertion_counts_what_a_block_emits(
    closed: Event, customer: Customer, ann: User, noted: Event
) -> None:
    row = ticket(customer, ann)
    with assert_event_sent(closed) as emitted:
        close(row)
    assert emitted.keys == [str(row.pk)]
    with assert_event_sent(noted) as emitted:
        noted.emit({"desk": "a"})
    assert emitted.data == [{"desk": "a", "text": ""}]
    with pytest.raises(AssertionError, match="0 times, not 1"), assert_event_sent(closed):
        pass


# The page of a user.


def test_user_sees_and_ends_own_subscriptions_only(ann: User, bob: User) -> None:
    row = subscription(user_key=str(ann.pk))
    of_ann, of_bob = Browser(), Browser()
    of_ann.force_login(ann)
    of_bob.force_login(bob)
    listed, end = reverse("django_mcp_events:list"), reverse("django_mcp_events:end", args=[row.pk])
    assert b"https://a.example/" in of_ann.get(listed).content
    assert b"https://a.example/" not in of_bob.get(listed).content
    assert of_bob.post(end).status_code == 404
    # Some databases cannot search for a NUL: no view is called for it.
    with pytest.raises(Resolver404):
        resolve(unquote(end.replace(row.pk, "a%00b")))
    assert Browser().post(end).status_code == 302
    row.refresh_from_db()
    assert row.status == Status.ACTIVE
    assert of_ann.post(end).status_code == 302
    row.refresh_from_db()
    assert row.status == Status.ENDED
    assert b"https://a.example/" not in of_ann.get(listed).content
