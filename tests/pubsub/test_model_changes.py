"""Resources with a model: which changes notify whom, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, User
from django.db import connection, models, transaction
from django.db.models.signals import m2m_changed, post_save, pre_delete
from django.test.utils import isolate_apps

from django_mcp import ConfigurationError, ResourceTemplate, Server
from django_mcp.core.server.components import MODEL_OBSERVER, PendingObserver
from django_mcp.core.server.notifications import PUBLISHER
from django_mcp.pubsub import model_changes
from example_site.helpdesk.models import Comment, Customer, Ticket
from tests.memory_stores import configure
from tests.pubsub.methods import UPDATED
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient
from tests.wire.messages import STATELESS

__all__ = ["configure"]

LIST = "list of resources"


class RecordingPublisher:
    """Records what is published of the test's server; the example site has resources, too."""

    def __init__(self) -> None:
        self.published: list[str] = []

    def resource_changed(self, server: Server, uri: str) -> None:
        if server.name == "shop":
            self.published.append(uri)

    def list_changed(self, server: Server, category: str) -> None:
        if server.name == "shop":
            self.published.append(f"list of {category}")

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        coroutine.close()

    def take(self) -> list[str]:
        """Return what was published since the last call, sorted."""
        taken, self.published = self.published, []
        return sorted(taken)


@pytest.fixture
def publisher() -> Iterator[RecordingPublisher]:
    recording: Any = RecordingPublisher()
    with PUBLISHER.replaced(recording):
        yield recording


@pytest.fixture(autouse=True)
def _observer() -> Iterator[None]:
    """An observer of the test's own, whose receivers end with it."""
    signals: Any = (post_save, pre_delete, m2m_changed)
    before = [[*signal.receivers] for signal in signals]
    with MODEL_OBSERVER.replaced(model_changes.SignalObserver()):
        yield
    for signal, receivers in zip(signals, before, strict=True):
        signal.receivers[:] = receivers
        signal.sender_receivers_cache.clear()


@pytest.fixture
def server() -> Server:
    server = Server("shop")

    @server.resource("customer://{pk}", model=Customer)
    def customer(pk: int) -> str:
        return Customer.objects.get(pk=pk).name

    @server.resource("customers://all", model=Customer)
    def customers() -> str:
        return ", ".join(each.name for each in Customer.objects.all())

    return server


def make(name: str = "Acme") -> Customer:
    return Customer.objects.create(name=name, email=f"{name}@example.com", city="Rome")


@pytest.mark.django_db(transaction=True)
def test_creation_update_and_deletion_are_published(
    server: Server, publisher: RecordingPublisher
) -> None:
    customer = make()
    uri = f"customer://{customer.pk}"
    assert publisher.take() == [uri, "customers://all", LIST]

    customer.save()
    assert publisher.take() == [uri, "customers://all"]

    customer.delete()
    assert publisher.take() == [uri, "customers://all", LIST]


@pytest.mark.django_db(transaction=True)
def test_transaction_publishes_each_resource_once_after_its_commit(
    server: Server, publisher: RecordingPublisher
) -> None:
    with transaction.atomic():
        first, second = make("One"), make("Two")
        for _ in range(3):
            first.save()
        assert publisher.take() == []

    uris = [f"customer://{first.pk}", f"customer://{second.pk}"]
    assert publisher.take() == sorted([*uris, "customers://all", LIST])
    with transaction.atomic():
        first.save()
    assert publisher.take() == [uris[0], "customers://all"]


@pytest.mark.django_db(transaction=True)
def test_rolled_back_transaction_publishes_nothing(
    server: Server, publisher: RecordingPublisher
) -> None:
    customer = make()
    publisher.take()
    with transaction.atomic():
        customer.save()
        transaction.set_rollback(True)

    assert publisher.take() == []
    customer.save()
    assert publisher.take() == [f"customer://{customer.pk}", "customers://all"]


@pytest.mark.django_db(transaction=True)
def test_change_after_a_rolled_back_savepoint_is_published(
    server: Server, publisher: RecordingPublisher
) -> None:
    customer = make()
    publisher.take()
    with transaction.atomic():
        with suppress(LookupError), transaction.atomic():
            customer.save()
            raise LookupError
        customer.save()

    assert publisher.take() == [f"customer://{customer.pk}", "customers://all"]


@pytest.mark.django_db(transaction=True)
def test_failing_publisher_does_not_fail_the_commit(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    publisher: Any = object()
    with PUBLISHER.replaced(publisher):
        make()

    assert Customer.objects.count() == 1
    assert "Error calling" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_update_of_a_queryset_sends_no_signal(
    server: Server, publisher: RecordingPublisher
) -> None:
    make()
    publisher.take()
    Customer.objects.update(city="Bern")

    assert publisher.take() == []


@pytest.mark.django_db(transaction=True)
def test_variables_are_fields_and_relations_are_keys(publisher: RecordingPublisher) -> None:
    server = Server("shop")

    @server.resource("ticket://{customer}/{subject}", model=Ticket)
    def ticket(customer: int, subject: str) -> str:
        return subject

    customer = make()
    Ticket.objects.create(customer=customer, subject="A/B c", description="")

    assert publisher.take() == sorted([f"ticket://{customer.pk}/A%2FB%20c", LIST])


@pytest.mark.django_db(transaction=True)
def test_class_of_a_template_has_a_model(publisher: RecordingPublisher) -> None:
    server = Server("shop")

    @server.resource
    class CommentText(ResourceTemplate):
        uri_template = "comment://{pk}"
        name = "comment"
        model = Comment

        def read(self, pk: int) -> str:
            return Comment.objects.get(pk=pk).text

    ticket = Ticket.objects.create(customer=make(), subject="A", description="")
    comment = Comment.objects.create(ticket=ticket, text="B")

    assert publisher.take() == [f"comment://{comment.pk}", LIST]


@pytest.mark.django_db(transaction=True)
def test_proxy_and_many_to_many_changes_are_published(publisher: RecordingPublisher) -> None:
    server = Server("shop")

    @server.resource("user://{username}", model=User)
    def user(username: str) -> str:
        return username

    class Proxy(User):
        class Meta:
            proxy = True
            app_label = "auth"

    template: Any = server.components.find("resource_template", "user://{username}")
    server.components.replace(template)
    ada = Proxy.objects.create(username="ada")
    assert publisher.take() == [LIST, "user://ada"]

    User.objects.get(pk=ada.pk).groups.add(Group.objects.create(name="staff"))
    assert publisher.take() == ["user://ada"]


@pytest.fixture
def users() -> Server:
    server = Server("shop")

    @server.resource("user://{username}", model=User)
    def user(username: str) -> str:
        return username

    return server


@pytest.mark.django_db(transaction=True)
def test_deletion_of_objects_with_deferred_fields_is_published(
    users: Server, publisher: RecordingPublisher
) -> None:
    ada, bob = (User.objects.create(username=name) for name in ("ada", "bob"))
    publisher.take()

    User.objects.only("pk").filter(pk=ada.pk).delete()
    assert publisher.take() == [LIST, "user://ada"]

    User.objects.only("pk").get(pk=bob.pk).delete()
    assert publisher.take() == [LIST, "user://bob"]
    assert not User.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_deletion_of_an_object_that_somebody_else_has_deleted_is_no_error(
    users: Server, publisher: RecordingPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    ada = User.objects.only("pk").get(pk=User.objects.create(username="ada").pk)
    User.objects.all().delete()
    publisher.take()

    ada.delete()

    assert publisher.take() == [LIST]
    assert "A change of a model cannot be announced" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_change_without_autocommit_is_saved_and_logged(
    users: Server, publisher: RecordingPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    transaction.set_autocommit(False)
    try:
        User.objects.create(username="ada")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    assert User.objects.get().username == "ada"
    assert "A change of a model cannot be announced" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_many_to_many_changes_from_the_other_side_are_published(
    users: Server, publisher: RecordingPublisher
) -> None:
    staff = Group.objects.create(name="staff")
    ada, bob = (User.objects.create(username=name) for name in ("ada", "bob"))
    publisher.take()

    staff.user_set.add(ada, bob)
    assert publisher.take() == ["user://ada", "user://bob"]
    staff.user_set.remove(bob)
    assert publisher.take() == ["user://bob"]
    staff.user_set.set([bob])
    assert publisher.take() == ["user://ada", "user://bob"]
    staff.user_set.clear()
    assert publisher.take() == ["user://bob"]
    with transaction.atomic():
        staff.user_set.add(ada)
        transaction.set_rollback(True)
    assert publisher.take() == []


@pytest.mark.django_db(transaction=True)
def test_symmetrical_many_to_many_changes_are_published_for_both_sides(
    publisher: RecordingPublisher,
) -> None:
    server = Server("shop")

    @isolate_apps("tests")
    def friends() -> Any:
        class Friend(models.Model):
            friends = models.ManyToManyField("self")

            class Meta:
                app_label = "tests"

        return Friend

    friend = friends()
    server.resource("friend://{pk}", model=friend)(lambda pk: "")
    with connection.schema_editor() as editor:
        editor.create_model(friend)
    try:
        one, two = friend.objects.create(), friend.objects.create()
        publisher.take()
        one.friends.add(two)
        added = publisher.take()
        two.friends.clear()
        cleared = publisher.take()
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(friend)

    assert added == cleared == [f"friend://{one.pk}", f"friend://{two.pk}"]


@pytest.mark.django_db(transaction=True)
def test_removed_resource_is_not_published(server: Server, publisher: RecordingPublisher) -> None:
    server.unregister_resource("customers://all")
    publisher.take()

    customer = make()

    assert publisher.take() == [f"customer://{customer.pk}", LIST]


def test_models_without_resources_have_no_receivers(server: Server) -> None:
    assert post_save.has_listeners(Customer)
    assert not any(
        getattr(receiver, "__self__", None) is MODEL_OBSERVER.get()
        for receiver in post_save._live_receivers(Group)[0]
    )


def test_resources_registered_before_the_app_is_ready_are_observed() -> None:
    pending = PendingObserver()
    MODEL_OBSERVER.fill(pending)
    server = Server("shop")
    server.resource("customers://all", model=Customer)(lambda: "")
    assert [each for each, _ in pending.pending] == [server]

    model_changes.observe_models()

    observer: Any = MODEL_OBSERVER.get()
    assert server in observer._models[Customer]


@pytest.mark.parametrize(
    ("uri", "model", "message"),
    [
        ("ticket://{pk}", "helpdesk.Ticket", "give a class of Django's models"),
        ("ticket://{number}", Ticket, "names 'number', which is no field of helpdesk.Ticket"),
        ("ticket://{comments}", Ticket, "names 'comments', which is no field"),
    ],
)
def test_model_that_cannot_be_observed_is_rejected(uri: str, model: Any, message: str) -> None:
    server = Server("shop")

    def read(**variables: str) -> str:
        return ""

    with pytest.raises(ConfigurationError, match=message):
        server.resource(uri, model=model)(read)
    assert not any(server.components.all())


@pytest.mark.django_db(transaction=True)
async def test_subscriber_is_notified_of_a_saved_object(server: Server) -> None:
    customer = await sync_to_async(make)()
    uri = f"customer://{customer.pk}"
    peer = AsgiClient(server, STATELESS)
    wanted = {"resourceSubscriptions": [uri], "resourcesListChanged": True}
    async with peer.open_post(peer.listen(id=1, **wanted)) as stream:
        await stream.message()

        await customer.asave()
        async with asyncio.timeout(SECONDS):
            # The list has changed with the first customer, and may be announced only now.
            while (updated := await stream.message())["method"] != UPDATED:
                pass
            await sync_to_async(make)("Other")
            listed = await stream.message()

    assert updated["params"]["uri"] == uri
    assert listed["method"] == "notifications/resources/list_changed"
