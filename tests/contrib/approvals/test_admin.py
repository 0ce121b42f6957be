"""The admin of approvals: read-only, with the same rules for decisions as the pages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from django_mcp import Server, ToolError
from django_mcp.contrib.approvals.models import Approval, Phase
from django_mcp.tasks import submission
from django_mcp.testing import SyncClient
from tests.contrib.approvals.till import PERMISSION, browser_of, carried_out, id_of, user

pytestmark = pytest.mark.django_db(transaction=True)

LIST = reverse("admin:django_mcp_approvals_approval_changelist")


@pytest.fixture
def key(server: Server, ann: User) -> str:
    """The id of a call of Ann that waits."""
    with SyncClient(server, user=ann) as client:
        return id_of(client.call_tool("pay", {"amount": 7, "note": "<b>tea</b>"}))


def staff(name: str, *permissions: str) -> User:
    found = user(name, *permissions)
    found.is_staff = True
    found.save()
    found.user_permissions.add(Permission.objects.get(codename="view_approval"))
    return User.objects.get(pk=found.pk)


def act(who: User, action: str, *keys: str, **more: Any) -> Any:
    data = {"action": action, "_selected_action": keys, "comment": "", **more}
    return browser_of(who).post(LIST, data, follow=True)


def detail(key: str) -> str:
    return reverse("admin:django_mcp_approvals_approval_change", args=[quote(key)])


def test_member_of_staff_with_the_permission_decides(key: str) -> None:
    carl = staff("carl", PERMISSION)
    page = act(carl, "approve", key, comment="Fine")
    assert "1 call was decided." in page.text
    row = Approval.objects.get()
    assert (row.phase, row.decided_by_name) == (Phase.COMPLETED, "carl")
    assert (row.decided_in, row.comment) == ("admin", "Fine")
    assert carried_out == [7]


def test_selected_calls_run_on_one_thread(
    server: Server, ann: User, threads_of_decisions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SyncClient(server, user=ann) as client:
        keys = [
            id_of(client.call_tool("pay", {"amount": amount, "note": "tea"}))
            for amount in (1, 2, 3)
        ]
    followed: list[Any] = []
    follow = submission.follow

    def noted(*changed: Any, **more: Any) -> None:
        followed.append(more["submit"])
        follow(*changed, **more)

    monkeypatch.setattr(submission, "follow", noted)
    page = act(staff("carl", PERMISSION), "approve", *keys)
    assert "3 calls were decided." in page.text
    assert [sorted(submitted) for submitted in followed] == [sorted(keys)]
    assert sorted(carried_out) == [1, 2, 3]
    assert {row.phase for row in Approval.objects.all()} == {Phase.COMPLETED}


def test_member_of_staff_without_the_permission_decides_nothing(key: str) -> None:
    dora = staff("dora")
    for action in ("approve", "decline"):
        assert "1 call was not decided" in act(dora, action, key).text
    assert Approval.objects.get().phase == Phase.WAITING
    assert carried_out == []


def test_caller_decides_nothing_under_four_eyes(server: Server) -> None:
    root = User.objects.create_superuser("root")
    with SyncClient(server, user=root) as client:
        key = id_of(client.call_tool("pay_safely", {"amount": 7}))
    assert "1 call was not decided" in act(root, "approve", key).text
    assert carried_out == []


def test_declined_call_cannot_be_approved_afterwards(key: str) -> None:
    carl = staff("carl", PERMISSION)
    act(carl, "decline", key)
    assert "1 call was not decided" in act(carl, "approve", key).text
    assert Approval.objects.get().phase == Phase.DECLINED
    assert carried_out == []


def test_arguments_are_shown_to_those_who_may_approve_only(key: str) -> None:
    carl, dora = staff("carl", PERMISSION), staff("dora")
    shown = browser_of(carl).get(detail(key)).text
    assert "&lt;b&gt;tea&lt;/b&gt;" in shown
    assert "<b>tea</b>" not in shown
    hidden = browser_of(dora).get(detail(key)).text
    assert "tea" not in hidden
    assert "Only those who may approve the call see them." in hidden


def test_page_of_a_call_leaves_out_what_is_not_there(key: str) -> None:
    carl = staff("carl", PERMISSION)
    decided = ("decided_by_page", "decided_at", "decided_in", "comment", "started_at", "ended_at")

    def fields() -> set[str]:
        return set(
            re.findall(r'class="form-row field-(\w+)', browser_of(carl).get(detail(key)).text)
        )

    waiting = fields()
    assert waiting.isdisjoint({*decided, "error"})
    assert {"title", "arguments_table", "phase_text", "page"} <= waiting
    assert f"/approvals/{key}/" in browser_of(carl).get(detail(key)).text
    act(carl, "decline", key, comment="No")
    assert {"decided_by_page", "decided_at", "decided_in", "comment"} <= fields()
    assert fields().isdisjoint({"page", "started_at", "error"})


def test_page_of_a_failed_call_has_its_error(server: Server, ann: User) -> None:
    @server.tool(approval=PERMISSION)
    def pay_nothing(amount: int) -> str:
        raise ToolError("The drawer is <empty>")

    with SyncClient(server, user=ann) as client:
        key = id_of(client.call_tool("pay_nothing", {"amount": 7}))
    carl = staff("carl", PERMISSION)
    act(carl, "approve", key)
    assert "✗ The drawer is &lt;empty&gt;" in browser_of(carl).get(detail(key)).text


def test_rows_cannot_be_added_changed_or_deleted(key: str) -> None:
    browser = browser_of(User.objects.create_superuser("root"))
    assert browser.get(reverse("admin:django_mcp_approvals_approval_add")).status_code == 403
    assert browser.post(detail(key), {"status": "approved"}).status_code == 403
    delete = reverse("admin:django_mcp_approvals_approval_delete", args=[key])
    assert browser.post(delete, {"post": "yes"}).status_code == 403
    assert "delete_selected" not in browser.get(LIST).text
    assert Approval.objects.get().phase == Phase.WAITING


def test_list_is_filtered_and_searched(key: str) -> None:
    carl = browser_of(staff("carl", PERMISSION))
    assert detail(key) in carl.get(LIST, {"status": "waiting", "q": "ann"}).text
    assert detail(key) not in carl.get(LIST, {"status": "declined"}).text
    assert detail(key) not in carl.get(LIST, {"q": "nobody"}).text


def test_admin_needs_the_view_permission(key: str) -> None:
    eve = user("eve", PERMISSION)
    eve.is_staff = True
    eve.save()
    assert browser_of(eve).get(LIST).status_code == 403
