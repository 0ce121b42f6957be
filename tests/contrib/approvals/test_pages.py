"""The pages: who sees a call, who decides on it, and what an attacker can do."""

from __future__ import annotations

import asyncio
import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group, Permission, User
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import transaction
from django.http import HttpResponse
from django.urls import path, reverse
from django.utils import timezone

from django_mcp import Approval as Approves
from django_mcp import ConfigurationError, Server, registry
from django_mcp.contrib.approvals.models import (
    PHASES,
    STARTED,
    UNSTARTED,
    Approval,
    Decision,
    Phase,
)
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.tasks import Status
from django_mcp.tasks import store
from django_mcp.testing import Client, SyncClient
from django_mcp.transports.http import shutdown
from tests.contrib.approvals import rows
from tests.contrib.approvals.till import (
    PERMISSION,
    browser_of,
    carried_out,
    decision,
    id_of,
    page_of,
    text_of,
    user,
)
from tests.contrib.approvals.worker import approver
from tests.spec import spec
from tests.tasks.stored import pass_time
from tests.waiting import SECONDS, until

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/approvals/"
SCRIPT = "<script>alert(1)</script>"


def group_of(arguments: Any) -> Group | None:
    """The object that a call is about."""
    return Group.objects.filter(pk=arguments["amount"]).first()


def closing(server: Server, approval: Approves, caller: User) -> str:
    """The id of a call that waits, of a tool with this approval."""

    @server.tool(name="close_group", title="Close it", approval=approval)
    def close_group(amount: int) -> str:
        return f"Closed {amount}"

    with SyncClient(server, user=caller) as client:
        return id_of(client.call_tool("close_group", {"amount": 7}))


@pytest.mark.parametrize(
    ("permissions", "is_staff", "shown"),
    [
        ((), True, ""),
        (("auth.view_group",), True, '<a href="/admin/auth/group/7/change/">Tea &amp; co</a>'),
        (("auth.view_group",), False, "<dd>Tea &amp; co</dd>"),
    ],
)
def test_object_of_a_call_is_named_and_linked_for_who_may_view_it(
    server: Server, ann: User, permissions: tuple[str, ...], is_staff: bool, shown: str
) -> None:
    Group.objects.create(pk=7, name="Tea & co")
    key = closing(server, Approves("auth.delete_group", subject=group_of), ann)
    reader = user("reader", "auth.delete_group", *permissions)
    reader.is_staff = is_staff
    reader.save()
    for page in (LIST, page_of(key)):
        html = browser_of(reader).get(page).content.decode()
        assert "Close it" in html
        assert shown in html
        assert ("Tea" in html) is bool(shown)


def test_subject_that_fails_is_left_out(
    server: Server, ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    approval = Approves(PERMISSION, subject=lambda arguments: arguments["secret"])
    key = closing(server, approval, ann)
    page = browser_of(user("chief", PERMISSION)).get(page_of(key)).content.decode()
    assert "Close it" in page
    assert "The subject of a call of close_group failed: KeyError" in caplog.text
    assert "secret" not in caplog.text


@pytest.fixture
def eve(db: None) -> User:
    """Somebody without any permission."""
    return user("eve")


@pytest.fixture
def key(server: Server, ann: User) -> str:
    """The id of a call of Ann that waits."""
    return waiting(server, ann, "pay", note=SCRIPT)


def waiting(server: Server, who: User, tool: str, **more: Any) -> str:
    with SyncClient(server, user=who) as client:
        return id_of(client.call_tool(tool, {"amount": 7, **more}))


# What is shown.


def test_approver_sees_who_calls_what_with_which_arguments(key: str, bob: User) -> None:
    listed = browser_of(bob).get(LIST)
    assert [each.pk for each in listed.context["approvals"]] == [key]
    page = browser_of(bob).get(page_of(key))
    for text in ("Pay out", "ann", "django-mcp-test-client", "amount", ">7<", "till"):
        assert text in page.text, text
    assert Approval.objects.get().short_digest in page.text
    assert page.context["can_decide"]


def test_arguments_are_escaped(key: str, bob: User) -> None:
    for url in (LIST, page_of(key)):
        assert SCRIPT not in browser_of(bob).get(url).text
    assert "&lt;script&gt;alert(1)" in browser_of(bob).get(page_of(key)).text


def test_arguments_are_encrypted_in_the_table(key: str) -> None:
    row = Approval.objects.values().get()
    assert SCRIPT not in str(row)
    assert row["digest"] != ""


def test_caller_sees_the_own_call_but_cannot_decide(key: str, ann: User) -> None:
    page = browser_of(ann).get(page_of(key))
    assert page.status_code == 200
    assert 'name="decision"' not in page.text
    listed = browser_of(ann).get(LIST)
    assert [each.pk for each in listed.context["own"]] == [key]
    assert not listed.context["approvals"]
    browser_of(ann).post(page_of(key), decision(key))
    assert Approval.objects.get().phase == Phase.WAITING
    assert carried_out == []


def test_decided_call_shows_who_decided(key: str, bob: User, ann: User) -> None:
    browser_of(bob).post(page_of(key), decision(key, comment=f"Fine {SCRIPT}"))
    page = browser_of(ann).get(page_of(key)).text
    assert "carried out" in page
    assert "bob" in page
    assert "Fine &lt;script&gt;" in page


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.WAITING])
def test_page_of_every_phase_is_shown(
    status: Status, is_started: bool, key: str, bob: User
) -> None:
    phases = STARTED if is_started else UNSTARTED
    if status not in phases:
        pytest.skip("no such phase")
    started_at = timezone.now() if is_started else None
    Approval.objects.update(status=status, started_at=started_at)
    page = browser_of(bob).get(page_of(key))
    assert str(PHASES[phases[status]]) in page.text
    assert not page.context["can_decide"]


def test_result_that_cannot_be_decrypted_leaves_the_page_and_the_tool(
    key: str, server: Server, ann: User, bob: User, settings: Any
) -> None:
    browser_of(bob).post(page_of(key), decision(key))
    settings.SECRET_KEY = "another"
    assert "its result cannot be decrypted" in browser_of(bob).get(page_of(key)).text
    with SyncClient(server, user=ann) as client:
        client.call_tool("approval_status", {"id": key}).assert_error("cannot be decrypted")


def test_arguments_that_cannot_be_decrypted_cannot_be_approved_unseen(
    key: str, bob: User, settings: Any
) -> None:
    settings.SECRET_KEY = "another"
    page = browser_of(bob).get(page_of(key))
    assert "cannot be decrypted" in page.text
    browser_of(bob).post(page_of(key), decision(key))
    row = Approval.objects.get()
    assert row.phase == Phase.FAILED
    assert carried_out == []


def test_lost_run_that_cannot_be_decrypted_is_shown_with_an_unknown_outcome(
    ann: User, settings: Any
) -> None:
    key, _ = async_to_sync(rows.request)(user_key=str(ann.pk))
    Approval.objects.get().decide(approver(), Decision.APPROVE, where="page")
    async_to_sync(store.get().start)(key, "worker")
    asked = {"name": {"method": "elicitation/create", "params": {}}}
    change = async_to_sync(store.get().change)
    change(key, lambda task: tasks.ask(task, asked)[0], lease_owner="worker")
    settings.SECRET_KEY = "another key"
    for _ in range(2):
        pass_time(store.LEASE + 1)
        assert browser_of(ann).get(LIST).status_code == 200
    page = browser_of(ann).get(page_of(key))

    assert Approval.objects.all().prune() == 0
    assert Approval.objects.get().is_unknown
    assert "its outcome is unknown" in page.text


def test_templates_can_be_overridden(key: str, bob: User, settings: Any, tmp_path: Any) -> None:
    (tmp_path / "django_mcp_approvals").mkdir()
    base = "<title>Shop</title>{% block content %}{% endblock %}"
    (tmp_path / "django_mcp_approvals" / "base.html").write_text(base)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    assert browser_of(bob).get(page_of(key)).text.startswith("<title>Shop</title>")


# Who may not.


@spec("ELIC-33", "ELIC-36")
def test_pages_need_a_login(key: str) -> None:
    stranger = browser_of(None)
    for url in (LIST, page_of(key), f"{page_of(key)}own/"):
        for response in (stranger.get(url), stranger.post(url, decision(key))):
            assert response.status_code in (302, 405)
            if response.status_code == 302:
                assert response.headers["location"].startswith("/login/")
    assert Approval.objects.get().phase == Phase.WAITING


def test_call_of_somebody_else_does_not_exist_without_the_permission(key: str, eve: User) -> None:
    browser = browser_of(eve)
    for response in (
        browser.get(page_of(key)),
        browser.post(page_of(key), decision(key)),
        browser.get(page_of("x" * 22)),
        browser.get(page_of("a%00b")),
    ):
        assert response.status_code == 404
    assert not browser.get(LIST).context["approvals"]
    assert carried_out == []


def test_permission_is_checked_when_the_decision_is_made(key: str, bob: User) -> None:
    browser = browser_of(bob)
    form = decision(key)
    assert browser.get(page_of(key)).context["can_decide"]
    bob.user_permissions.clear()
    assert browser.post(page_of(key), form).status_code == 404
    assert Approval.objects.get().phase == Phase.WAITING


def test_caller_cannot_approve_under_four_eyes(server: Server, bob: User) -> None:
    key = waiting(server, bob, "pay_safely")
    page = browser_of(bob).get(page_of(key))
    assert not page.context["can_decide"]
    assert "Somebody else has to decide" in page.text
    for choice in ("approve", "decline"):
        browser_of(bob).post(page_of(key), decision(key, choice))
    assert Approval.objects.get().phase == Phase.WAITING

    root = User.objects.create_superuser("root")
    key = waiting(server, root, "pay_safely")
    browser_of(root).post(page_of(key), decision(key))
    assert Approval.objects.get(pk=key).phase == Phase.WAITING
    browser_of(bob).post(page_of(key), decision(key))
    assert Approval.objects.get(pk=key).phase == Phase.COMPLETED


def test_caller_with_the_permission_may_approve_without_four_eyes(
    server: Server, bob: User
) -> None:
    key = waiting(server, bob, "pay")
    browser_of(bob).post(page_of(key), decision(key))
    assert Approval.objects.get().phase == Phase.COMPLETED
    assert carried_out == [7]


@spec("ELIC-37", "2026/ELI-08")
def test_page_of_a_client_is_for_its_own_user_only(key: str, ann: User, bob: User) -> None:
    own = f"{page_of(key)}own/"
    assert browser_of(bob).get(own).status_code == 404
    assert browser_of(bob).post(own, decision(key)).status_code == 404
    assert browser_of(ann).get(own).status_code == 200
    assert Approval.objects.get().phase == Phase.WAITING


def test_status_of_somebody_elses_call_is_the_same_as_of_an_unknown_one(
    key: str, server: Server, eve: User, bob: User
) -> None:
    for who in (eve, bob):
        with SyncClient(server, user=who) as client:
            foreign = client.call_tool("approval_status", {"id": key})
            for other in ("x" * 22, "", "a\0b", "x" * 1000):
                assert client.call_tool("approval_status", {"id": other}) == foreign
    assert foreign["isError"]


def test_status_is_not_found_on_another_server(
    key: str, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Server("other")
    other.tool(name="pay", approval=PERMISSION)(lambda: None)
    with SyncClient(other, user=ann) as client:
        assert client.call_tool("approval_status", {"id": key})["isError"]


def test_foreign_page_cannot_decide(key: str, bob: User) -> None:
    browser = browser_of(bob, enforce_csrf_checks=True)
    foreign = {"origin": "https://evil.example"}
    assert browser.post(page_of(key), decision(key), headers=foreign).status_code == 403
    assert browser.post(page_of(key), decision(key)).status_code == 403
    assert Approval.objects.get().phase == Phase.WAITING
    page = browser.get(page_of(key))
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert found is not None
    assert page.headers["x-frame-options"] == "DENY"
    assert "no-store" in page.headers["cache-control"]
    browser.post(page_of(key), decision(key, csrfmiddlewaretoken=found[1]))
    assert Approval.objects.get().phase == Phase.COMPLETED


def test_csrf_is_checked_without_the_middleware_of_the_site(
    key: str, bob: User, settings: Any
) -> None:
    settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if "Csrf" not in each]
    browser = browser_of(bob, enforce_csrf_checks=True)
    assert browser.post(page_of(key), decision(key)).status_code == 403
    assert Approval.objects.get().phase == Phase.WAITING


@pytest.mark.parametrize(
    "wrong", [{"digest": "0" * 64}, {"digest": ""}, {"decision": "both"}, {"decision": ""}], ids=str
)
def test_form_that_the_page_did_not_make_decides_nothing(
    wrong: dict[str, Any], key: str, bob: User
) -> None:
    response = browser_of(bob).post(page_of(key), decision(key, **wrong))
    assert response.status_code == 200
    assert response.context["form"].errors
    assert Approval.objects.get().phase == Phase.WAITING


def test_reading_a_page_decides_nothing(key: str, bob: User) -> None:
    browser_of(bob).get(page_of(key), decision(key))
    assert Approval.objects.get().phase == Phase.WAITING


def test_comment_is_bounded(key: str, bob: User) -> None:
    response = browser_of(bob).post(page_of(key), decision(key, comment="x" * 1001))
    assert response.context["form"].errors
    assert Approval.objects.get().phase == Phase.WAITING


@pytest.mark.parametrize("first", ["approve", "decline"])
@pytest.mark.parametrize("second", ["approve", "decline"])
def test_second_decision_changes_nothing(first: str, second: str, key: str, bob: User) -> None:
    form = decision(key, second)
    browser_of(bob).post(page_of(key), decision(key, first))
    before = Approval.objects.values().get()
    page = browser_of(bob).post(page_of(key), form, follow=True)
    assert "You cannot decide on this call" in page.text
    assert Approval.objects.values().get() == before
    assert carried_out == ([7] if first == "approve" else [])


def test_changed_arguments_do_not_run(key: str, server: Server, ann: User, bob: User) -> None:
    other = waiting(server, ann, "pay", note="other")
    # Whoever can write to the table cannot exchange what was approved.
    Approval.objects.filter(pk=key).update(call=Approval.objects.get(pk=other).call)
    assert "cannot be decrypted" in browser_of(bob).get(page_of(key)).text
    browser_of(bob).post(page_of(key), decision(key))
    row = Approval.objects.get(pk=key)
    assert row.phase == Phase.FAILED
    assert "could not be verified" in str(row.stored_outcome())
    assert carried_out == []


def test_call_of_another_tool_is_not_stored_in_a_row(key: str, bob: User) -> None:
    Approval.objects.update(tool="fail")
    browser_of(bob).post(page_of(key), decision(key))
    assert Approval.objects.get().phase == Phase.FAILED
    assert carried_out == []


# The run.


def test_approved_call_that_was_not_started_can_be_started_on_the_page(key: str, bob: User) -> None:
    Approval.objects.get().decide(bob, Decision.APPROVE, where="page")
    assert "Carry it out" not in browser_of(bob).get(page_of(key)).text
    Approval.objects.update(decided_at=timezone.now() - timedelta(seconds=11))
    page = browser_of(bob).get(page_of(key))
    assert "Carry it out" in page.text
    form = {"run": "1", "digest": Approval.objects.get().digest}
    browser_of(bob).post(page_of(key), form)
    browser_of(bob).post(page_of(key), form)
    assert Approval.objects.get().phase == Phase.COMPLETED
    assert carried_out == [7]


def test_call_is_not_started_on_the_page_before_it_was_approved(key: str, ann: User) -> None:
    browser_of(ann).post(page_of(key), {"run": "1", "digest": Approval.objects.get().digest})
    assert Approval.objects.get().phase == Phase.WAITING
    assert carried_out == []


def test_page_does_not_wait_for_a_long_run(
    server: Server, ann: User, bob: User, threads_of_decisions: Any
) -> None:
    threads_of_decisions()
    release = threading.Event()
    done = threading.Event()

    @server.tool(approval=PERMISSION)
    def slow() -> str:
        """Take long."""
        release.wait(SECONDS)
        return "Done"

    with SyncClient(server, user=ann) as client:
        key = id_of(client.call_tool("slow"))
        browser_of(bob).post(page_of(key), decision(key))
        assert Approval.objects.get().phase in (Phase.APPROVED, Phase.RUNNING)
        assert "The call is being carried out." in browser_of(bob).get(page_of(key)).text
        release.set()
        for _ in range(500):
            if Approval.objects.get().phase == Phase.COMPLETED:
                break
            done.wait(0.02)
        assert text_of(client.call_tool("approval_status", {"id": key})) == "Done"


async def test_process_that_stops_waits_for_an_approved_call(
    server: Server, ann: User, bob: User, threads_of_decisions: Any
) -> None:
    threads_of_decisions()
    released = threading.Event()
    begun = threading.Event()

    @server.tool(approval=PERMISSION)
    def slow() -> str:
        """Take long."""
        begun.set()
        released.wait(SECONDS)
        return "Done"

    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("slow"))
    await sync_to_async(lambda: browser_of(bob).post(page_of(key), decision(key)))()
    process = shutdown.here(asyncio.get_running_loop())
    try:
        async with asyncio.timeout(SECONDS):
            await until(begun.is_set)
            stopping = process.begin()
            await asyncio.wait([stopping], timeout=4 * shutdown.TICK)
            is_stopped = stopping.done()
            released.set()
            await stopping
    finally:
        released.set()
        process.withdraw()

    assert not is_stopped
    assert (await Approval.objects.aget()).phase == Phase.COMPLETED


def test_decision_within_a_transaction_runs_after_its_commit(
    key: str, bob: User, settings: Any
) -> None:
    with transaction.atomic():
        assert Approval.objects.get().decide_on_page(bob, Decision.APPROVE, where="page")
        assert carried_out == []
    assert carried_out == [7]


# Keeping and deleting.


def test_decisions_are_kept_until_the_retention_is_over(
    key: str, bob: User, configure: Any, capsys: Any
) -> None:
    browser_of(bob).post(page_of(key), decision(key))
    configure(APPROVAL_RETENTION=None)
    Approval.objects.update(updated_at=timezone.now() - timedelta(days=1000))
    call_command("mcp_prune")
    assert Approval.objects.exists()
    configure(APPROVAL_RETENTION=3600)
    Approval.objects.update(updated_at=timezone.now() - timedelta(seconds=3590))
    call_command("mcp_prune")
    assert Approval.objects.exists()
    Approval.objects.update(updated_at=timezone.now() - timedelta(seconds=3610))
    call_command("mcp_prune")
    assert not Approval.objects.exists()
    assert "Deleted 1 approvals." in capsys.readouterr().out


def test_decisions_are_deleted_after_ninety_days_by_default(key: str, bob: User) -> None:
    browser_of(bob).post(page_of(key), decision(key))
    Approval.objects.update(updated_at=timezone.now() - timedelta(days=89))
    call_command("mcp_prune")
    assert Approval.objects.exists()
    Approval.objects.update(updated_at=timezone.now() - timedelta(days=91))
    call_command("mcp_prune")
    assert not Approval.objects.exists()


def test_lists_show_the_arguments_to_the_caller_and_to_those_who_decide(
    key: str, ann: User, bob: User, eve: User
) -> None:
    row = Approval.objects.get()
    (name, value), *_ = row.arguments.items()
    for reader in (ann, bob):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in browser_of(reader).get(LIST).text
    assert f"<dt>{name}</dt>" not in browser_of(eve).get(LIST).text
    admin = reverse("admin:django_mcp_approvals_approval_changelist")
    root = User.objects.create_superuser("root")
    assert f"{name}: {value}" in browser_of(root).get(admin).content.decode()
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_approval"))
    assert f"{name}: {value}" not in browser_of(viewer).get(admin).content.decode()


def test_lists_load_the_arguments_with_their_rows(
    key: str, bob: User, django_assert_max_num_queries: Any
) -> None:
    root = User.objects.create_superuser("root")
    admin = reverse("admin:django_mcp_approvals_approval_changelist")
    # The page has two lists: of calls to decide, and of the reader's own.
    for who, url, lists in ((bob, LIST, 2), (root, admin, 1)):
        with django_assert_max_num_queries(100) as queries:
            assert browser_of(who).get(url).status_code == 200
        assert len([each for each in queries if '"call"' in each["sql"]]) == lists


def test_call_of_ones_own_with_four_eyes_is_not_among_those_to_decide(key: str, ann: User) -> None:
    permission = Approval.objects.get().permission.partition(".")[2]
    ann.user_permissions.add(Permission.objects.get(codename=permission))
    ann = User.objects.get(pk=ann.pk)
    Approval.objects.update(four_eyes=True, user_key=str(ann.pk))
    page = browser_of(ann).get(LIST).content.decode()
    assert page.count(page_of(key)) == 1


def test_waiting_call_is_not_deleted(key: str, configure: Any) -> None:
    configure(APPROVAL_RETENTION=1)
    Approval.objects.update(updated_at=timezone.now() - timedelta(days=1000))
    call_command("mcp_prune")
    assert Approval.objects.get().phase == Phase.WAITING


def test_decision_outlives_its_people(key: str, ann: User, bob: User) -> None:
    browser_of(bob).post(page_of(key), decision(key))
    User.objects.all().delete()
    row = Approval.objects.get()
    assert (row.caller_name, row.decided_by_name) == ("ann", "bob")


# Checks and migrations.

urlpatterns = [path("", lambda request: HttpResponse(), name="home")]


def found(prefix: str = "django_mcp_approvals") -> list[str]:
    ids = [str(each.id) for each in run_checks(tags=["django_mcp"])]
    return [each for each in ids if each.startswith(prefix)]


def test_missing_urls_are_reported(settings: Any) -> None:
    assert found() == []
    settings.ROOT_URLCONF = "tests.contrib.approvals.test_pages"
    assert found() == ["django_mcp_approvals.W001"]


def test_permission_of_an_unknown_app_is_reported(server: Server) -> None:
    server.tool(name="other", approval="unknown.approve")(lambda: None)
    assert found() == ["django_mcp_approvals.W002"]


async def test_server_does_not_start_without_the_app(
    server: Server, ann: User, settings: Any
) -> None:
    apps = [each for each in settings.INSTALLED_APPS if not each.endswith("approvals")]
    settings.INSTALLED_APPS = apps
    with pytest.raises(ConfigurationError, match='add "django_mcp.contrib.approvals" to'):
        registry.configure(server)


def test_migrations_are_complete() -> None:
    call_command("makemigrations", "django_mcp_approvals", check=True, dry_run=True, verbosity=0)


# Tenants.


def tenant_of(request: Any) -> str | None:
    """The tenant of a host such as ``one.example.org``."""
    name, _, rest = request.get_host().partition(".")
    return name if rest == "example.org" else None


def test_pages_show_the_calls_of_their_tenant(
    key: str, ann: User, bob: User, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = [".example.org", "testserver"]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "TENANT": f"{__name__}.tenant_of"}

    def listed(who: User, host: str) -> tuple[int, int, int]:
        browser = browser_of(who)
        page = browser.get(LIST, headers={"host": host})
        detail = browser.get(page_of(key), headers={"host": host})
        return len(page.context["approvals"]), len(page.context["own"]), detail.status_code

    assert listed(bob, "testserver") == (1, 0, 200)
    assert listed(ann, "testserver") == (0, 1, 200)
    assert listed(bob, "one.example.org") == (0, 0, 404)
    principal = Approval.objects.get().principal
    Approval.objects.update(principal=f"one|{principal}")
    assert listed(bob, "one.example.org") == (1, 0, 200)
    assert listed(ann, "one.example.org") == (0, 1, 200)
    assert listed(bob, "two.example.org") == (0, 0, 404)
    assert listed(bob, "testserver") == (0, 0, 404)
