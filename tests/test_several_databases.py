"""Everything that is written is read back where it was written: a replica has nothing of it yet."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django import forms
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import User
from django.db import connections, transaction

from django_mcp import Frame, Server, ToolError
from django_mcp.auth.token import TokenAuthentication, digest_of
from django_mcp.contrib.approvals.models import Approval
from django_mcp.contrib.call_log import recording
from django_mcp.contrib.call_log.models import Call
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.contrib.url_elicitation import pages
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.forms import form_tool
from django_mcp.modeladmin import admin_tools
from django_mcp.models import McpSession, McpTask
from django_mcp.pubsub import revocations
from django_mcp.routing import endpoint
from django_mcp.testing import Client
from django_mcp.toolsets import ModelToolset
from example_site.helpdesk.models import Customer, Ticket
from tests.around.requests import post
from tests.contrib.approvals import till
from tests.contrib.url_elicitation.pages_of_tests import PAID_BY_BANK as PAID
from tests.contrib.url_elicitation.pages_of_tests import VALID, bank, visiting
from tests.replica import PRIMARY, replica

__all__ = ["replica"]

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.urls("tests.contrib.url_elicitation.pages_of_tests"),
    pytest.mark.usefixtures("replica"),
]

SESSION = "2025-11-25"
ALDER = {"name": "Alder", "email": "alder@example.com", "city": "Riga"}


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", is_superuser=True)


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    public = ["django_mcp.auth.anonymous.AnonymousAuthentication"]
    settings.DJANGO_MCP = {"AUTHENTICATORS": public, "BASE_URL": "https://till.example"}


class Customers(ModelToolset):
    model = Customer
    operations = ("list", "get", "create", "update", "delete")
    fields = ("pk", "name", "city")
    write_fields = ("name", "email", "city")


async def test_toolset_answers_with_what_it_wrote(ann: User, replica: str) -> None:
    server = Server("customers")
    Customers.__mcp_register__(server)
    async with Client(server, user=ann) as client:
        created = (await client.call_tool("create_customer", ALDER)).structured
        assert created["name"] == "Alder"
        changes = {"pk": created["pk"], "city": "Oslo"}
        updated = (await client.call_tool("update_customer", changes)).structured
        assert updated == {"pk": created["pk"], "name": "Alder", "city": "Oslo"}
        # Reading is what the replica is for.
        listed = (await client.call_tool("list_customers")).structured
        assert listed["items"] == []
        deleted = await client.call_tool("delete_customer", {"pk": created["pk"]})
        assert not deleted.is_error
    assert not await Customer.objects.using(PRIMARY).aexists()
    assert not await Customer.objects.using(replica).aexists()


async def test_related_toolset_with_a_database_of_its_own_limits_rows_of_another(
    ann: User, replica: str
) -> None:
    class OfPrimary(Customers):
        def get_queryset(self, frame: Frame) -> Any:
            return Customer.objects.using(PRIMARY).filter(city="Riga")

    class Tickets(ModelToolset):
        model = Ticket
        fields = ("pk", "customer__name")

        def get_queryset(self, frame: Frame) -> Any:
            return Ticket.objects.using(replica).all()

    for name, city in {"Alder": "Riga", "Hidden": "Oslo"}.items():
        email = f"{name}@example.com"
        customer = await Customer.objects.using(replica).acreate(name=name, email=email, city=city)
        await Ticket.objects.using(replica).acreate(customer=customer, subject=name)
    server = Server("tickets")
    OfPrimary.__mcp_register__(server)
    Tickets.__mcp_register__(server)
    async with Client(server, user=ann) as client:
        listed = (await client.call_tool("list_tickets")).structured
    assert [row["customer__name"] for row in listed["items"]] == ["Alder", None]


async def test_admin_with_a_database_of_its_own_has_its_transaction_there(
    ann: User, replica: str, settings: Any
) -> None:
    are_atomic = []

    class OfOther(ModelAdmin):  # type: ignore[type-arg]
        """As the documentation of Django has it."""

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).using(replica)

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            are_atomic.append(connections[replica].in_atomic_block)
            obj.save(using=replica)

        def delete_model(self, request: Any, obj: Any) -> None:
            are_atomic.append(connections[replica].in_atomic_block)
            obj.delete(using=replica)

    settings.ALLOWED_HOSTS = ["till.example"]
    ann.is_staff = True
    await ann.asave()
    site = AdminSite("other")
    site.register(Customer, OfOther)
    server = Server("other")
    admin_tools(site, server=server, prefix="")
    model = "helpdesk.Customer"
    async with Client(server, user=ann) as client:
        (await client.call("add", model=model, values=ALDER)).assert_ok()
        customer = await Customer.objects.using(replica).aget()
        target = {"model": model, "pk": customer.pk}
        (await client.call("change", **target, values={"city": "Oslo"})).assert_ok()
        preview = json.loads((await client.call("delete", **target)).text)
        (await client.call("delete", **target, confirm=preview["confirm"])).assert_ok()
    assert are_atomic == [True] * 3
    assert not await Customer.objects.using(replica).aexists()


class CustomerForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Customer
        fields = ("name", "email", "city")


async def test_form_that_fails_after_saving_leaves_nothing(
    ann: User, replica: str, settings: Any
) -> None:
    class WritesElsewhere:
        """The tables of the helpdesk are in another database than the default one."""

        def db_for_read(self, model: Any, **hints: Any) -> str | None:
            return replica if model is Customer else None

        db_for_write = db_for_read

    settings.DATABASE_ROUTERS = [WritesElsewhere()]

    def save(form: Any, frame: Frame) -> Any:
        form.save()
        raise ToolError("The customer is in debt.")

    server = Server("forms")
    form_tool(CustomerForm, server=server, on_valid=save)
    async with Client(server, user=ann) as client:
        (await client.call("customer", **ALDER)).assert_error("The customer is in debt.")
    assert not await Customer.objects.using(replica).aexists()


async def test_form_writes_to_the_database_of_its_instance(ann: User, replica: str) -> None:
    def save(form: Any, frame: Frame) -> Any:
        form.instance.save(using=replica)
        raise ToolError("No.")

    there = await Customer.objects.using(replica).acreate(**ALDER)

    def kwargs(frame: Frame) -> Any:
        return {"instance": Customer.objects.using(replica).get(pk=there.pk)}

    server = Server("forms")
    form_tool(CustomerForm, server=server, form_kwargs=kwargs)
    async with Client(server, user=ann) as client:
        # The row is not in the database to which the router writes.
        (await client.call("customer", city="Oslo")).assert_error(
            "This row does not exist any more."
        )


def test_token_is_issued_used_and_revoked(
    ann: User, replica: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, token = PersonalAccessToken.objects.issue(ann, "CI")
    assert PersonalAccessToken.objects.using(PRIMARY).get() == row
    assert not PersonalAccessToken.objects.using(replica).exists()
    published: list[Any] = []
    monkeypatch.setattr(revocations, "_publish", published.append)

    with transaction.atomic(using=PRIMARY):
        assert PersonalAccessToken.objects.filter(owner=ann).revoke() == 1
        assert published == []  # Others would read the token again, and find it valid.
    assert [message["digest"] for message in published] == [digest_of(token)]
    assert PersonalAccessToken.objects.using(PRIMARY).get().revoked_at is not None


def test_token_ends_with_the_password_of_its_owner(ann: User) -> None:
    PersonalAccessToken.objects.issue(ann, "CI", made_by_owner=True)
    ann.set_password("another")
    ann.save()
    assert PersonalAccessToken.objects.using(PRIMARY).get().revoked_at is not None


async def test_token_is_accepted_until_it_is_revoked(ann: User) -> None:
    issue = sync_to_async(PersonalAccessToken.objects.issue)
    row, token = await issue(ann, "CI")
    server = Server("shop", authenticators=[TokenAuthentication()])
    server.tool(name="buy")(lambda: "bought")
    application = endpoint(server)
    headers = {"authorization": f"Bearer {token}"}
    assert (await post(application, "tools/call", {"name": "buy"}, headers)).status == 200
    await sync_to_async(row.revoke)()
    assert (await post(application, "tools/call", {"name": "buy"}, headers)).status == 401


async def test_approved_call_is_carried_out(
    ann: User, replica: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    till.carried_out.clear()
    server = till.till()
    till.register(server, monkeypatch)
    async with Client(server, user=ann) as client:
        key = till.id_of(await client.call_tool("pay", {"amount": 7}))
        approval = await Approval.objects.using(PRIMARY).aget(pk=key)
        form = {"decision": "approve", "comment": "", "digest": approval.digest}

        def approve() -> Any:
            return till.browser_of(ann).post(till.page_of(key), form)

        assert (await sync_to_async(approve)()).status_code == 302

        async def is_paid() -> bool:
            answer = await client.call_tool("approval_status", {"id": key})
            return "paid" in till.text_of(answer)

        while not await is_paid():  # The time limit of the test ends it.
            await asyncio.sleep(0.05)
    assert till.carried_out == [7]
    assert not await Approval.objects.using(replica).aexists()


async def test_answer_of_a_page_reaches_the_handler(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "POLL_INTERVAL", 0.01)
    visit = visiting(ann, VALID, [])
    async with Client(bank(), version=SESSION, user=ann, elicitation=visit) as client:
        assert (await client.call_tool("apay")).text == PAID


async def test_session_is_found_by_its_next_request(replica: str) -> None:
    server = Server("shop")
    server.tool(name="buy")(lambda: "bought")
    async with Client(server, version=SESSION, transport="http") as client:
        for _ in range(2):
            assert (await client.call_tool("buy")).text == "bought"
        assert await McpSession.objects.using(PRIMARY).aexists()
    assert not await McpSession.objects.using(replica).aexists()


async def test_result_of_a_task_is_found(ann: User, replica: str) -> None:
    server = Server("shop")

    @server.tool(task_support="required")
    def bake() -> str:
        return "baked"

    params = {"name": "bake", "arguments": {}, "task": {}}
    async with Client(server, version=SESSION, user=ann, transport="http") as client:
        task = (await client.request("tools/call", params))["task"]
        result = await client.request("tasks/result", {"taskId": task["taskId"]})
        assert result["content"][0]["text"] == "baked"
        found = await client.request("tasks/get", {"taskId": task["taskId"]})
        assert found["status"] == "completed"
    assert await McpTask.objects.using(PRIMARY).aexists()
    assert not await McpTask.objects.using(replica).aexists()


async def test_call_is_recorded_once(
    ann: User, replica: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(INSTALLED, "after_call", (recording.record,))
    monkeypatch.setattr(Client, "records_calls", True)
    recording.QUEUE.waiting.clear()  # Of earlier tests, whose calls nobody has written.
    server = Server("shop")
    server.tool(name="buy")(lambda: "bought")
    async with Client(server, user=ann) as client:
        await client.call_tool("buy")
    await recording.QUEUE.write()
    assert await Call.objects.using(PRIMARY).acount() == 1
    assert not await Call.objects.using(replica).aexists()
