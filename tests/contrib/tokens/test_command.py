"""manage.py mcp_token: create, list and revoke."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_mcp import Server, registry
from django_mcp.auth.token import TokenAuthentication, digest_of
from django_mcp.contrib.tokens.models import PersonalAccessToken

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def ann(monkeypatch: pytest.MonkeyPatch) -> User:
    shop = Server("shop", authenticators=[TokenAuthentication()], scopes=["read", "write"])
    bare = Server("bare", authenticators=[])
    shop.tool(name="refund", group="orders")(lambda: None)
    found = {each.name: each for each in (registry.default, shop, bare)}
    monkeypatch.setattr(registry.registered, "servers", found)
    return User.objects.create_user("ann")


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("mcp_token", *arguments, stdout=out, stderr=err)
    return out.getvalue().strip(), err.getvalue().strip()


def test_create_prints_only_the_token_on_standard_output(ann: User) -> None:
    chosen = ["--scope", "write", "--scope", "read", "--server", "shop", "--days", "7"]
    chosen += ["--group", "orders", "--read-only"]
    token, note = run("create", "ann", "--name", "ci", *chosen)
    row = PersonalAccessToken.objects.get()
    assert row.digest == digest_of(token)
    assert (row.owner, row.name) == (ann, "ci")
    assert (row.scopes, row.servers) == (["read", "write"], ["shop"])
    assert (row.groups, row.read_only) == (["orders"], True)
    assert row.expires_at is not None
    assert abs(row.expires_at - timezone.now() - timedelta(days=7)) < timedelta(minutes=1)
    assert "not shown again" in note
    assert token not in note


def test_lifetime_of_0_days_is_no_limit() -> None:
    run("create", "ann", "--name", "ci", "--days", "0")
    assert PersonalAccessToken.objects.get().expires_at is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "nobody", "--name", "ci"], "There is no user 'nobody'."),
        (["create", "ann", "--name", " "], "--name must have 1 to 100 characters."),
        (["create", "ann", "--name", "ci", "--days", "-1"], "--days must be a number from 0"),
        (["create", "ann", "--name", "ci", "--server", "x"], "There is no MCP server 'x'"),
        (["create", "ann", "--name", "ci", "--server", "bare"], "'bare' accepts no tokens: add"),
        (["create", "ann", "--name", "ci", "--group", "x"], "no group 'x'; there are: orders"),
        (["list", "--user", "nobody"], "There is no user 'nobody'."),
        (["revoke"], "Name the ids of tokens"),
        (["revoke", "1", "--user", "ann"], "Name the ids of tokens"),
        (["revoke", "99"], "There is no token 99."),
        (["revoke", f"{2**63}"], f"There is no token {2**63}."),
    ],
)
def test_mistake_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message.replace("(", r"\(")):
        run(*arguments)
    assert not PersonalAccessToken.objects.exists()


def test_create_for_a_deactivated_user_is_an_error(ann: User) -> None:
    User.objects.update(is_active=False)
    with pytest.raises(CommandError, match="not active"):
        run("create", "ann", "--name", "ci")


def test_list_shows_tokens_without_their_digests(ann: User) -> None:
    assert run("list") == ("There are no tokens.", "")
    row, token = PersonalAccessToken.objects.issue(ann, "ci", scopes=["read"])
    PersonalAccessToken.objects.issue(User.objects.create_user("bob"), "desk")[0].revoke()
    text, _ = run("list")
    assert token not in text
    assert row.digest not in text
    header, bob, own = text.splitlines()
    assert header.split()[:4] == ["ID", "USER", "NAME", "TOKEN"]
    assert own.split() == [
        str(row.pk), "ann", "ci", f"{token[:10]}…", "valid", "read", "all", "all", "all", "-", "-",
    ]  # fmt: skip
    assert "revoked" in bob
    assert "bob" not in run("list", "--user", "ann")[0]


def test_list_as_json(ann: User) -> None:
    row, token = PersonalAccessToken.objects.issue(ann, "ci", servers=["shop"])
    (listed,) = json.loads(run("list", "--json")[0])
    assert listed["id"] == row.pk
    assert listed["servers"] == ["shop"]
    assert token not in str(listed)


def test_revoke_by_id_and_by_user(ann: User) -> None:
    rows: list[Any] = [PersonalAccessToken.objects.issue(ann, name)[0] for name in "abc"]
    assert run("revoke", str(rows[0].pk), str(rows[1].pk))[0] == "Revoked 2 tokens."
    assert run("revoke", "--user", "ann")[0] == "Revoked 1 tokens."
    assert not PersonalAccessToken.objects.unrevoked().exists()


def test_scope_that_the_site_does_not_know_is_rejected() -> None:
    with pytest.raises(CommandError) as raised:
        run("create", "ann", "--name", "ci", "--scope", "read", "--scope", "nope")
    message = str(raised.value)
    assert message.startswith("There is no scope 'nope'; there are: helpdesk, helpdesk:write, ")
    assert message.endswith("read, write.")
    assert not PersonalAccessToken.objects.exists()
