"""A revocation by a third process, on two workers which have accepted the token before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import httpx
import pytest

from tests.databases import REDIS_URL, why_not_redis
from tests.running_site import RunningSite, two_workers
from tests.waiting import wait_until

NO_LAYER = why_not_redis("channels_redis")
pytestmark = pytest.mark.skipif(NO_LAYER is not None, reason=str(NO_LAYER))

ISSUE = """
from django.contrib.auth.models import User
from django_mcp.contrib.tokens.models import PersonalAccessToken
with open({path!r}, "w") as file:
    for name in ["ann-1", "ann-2"]:
        ann = User.objects.create(username=name)
        row, token = PersonalAccessToken.objects.issue(ann, "laptop")
        print(row.pk, token, file=file)
"""
DEACTIVATE = """
from django.contrib.auth.models import User
ann = User.objects.get(username="ann-{number}")
ann.is_active = False
ann.save()
"""
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/list",
}
META = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
MESSAGE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {"_meta": {f"io.modelcontextprotocol/{key}": META[key] for key in META}},
}


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[RunningSite, RunningSite]]:
    """Two processes of one site."""
    with two_workers("tests.contrib.tokens.two_workers", REDIS_URL) as sites:
        yield sites


@pytest.fixture(scope="module")
def issued(
    workers: tuple[RunningSite, RunningSite], tmp_path_factory: pytest.TempPathFactory
) -> Sequence[tuple[str, str]]:
    """The primary keys and the values of tokens of two new users."""
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    workers[0].manage("shell", "--verbosity", "0", "--command", ISSUE.format(path=str(path)))
    rows = [line.split() for line in path.read_text().splitlines()]
    return [(key, token) for key, token in rows]


def status(site: RunningSite, token: str) -> int:
    headers = {**HEADERS, "authorization": f"Bearer {token}"}
    return httpx.post(site.url("/mcp"), json=MESSAGE, headers=headers, verify=False).status_code


@pytest.mark.parametrize(
    ("number", "command"),
    [
        (1, ("mcp_token", "revoke", "{key}")),
        (2, ("shell", "--verbosity", "0", "--command", DEACTIVATE)),
    ],
    ids=["revoked", "deactivated"],
)
def test_all_workers_reject_a_token_at_once(
    workers: tuple[RunningSite, RunningSite],
    issued: Sequence[tuple[str, str]],
    number: int,
    command: tuple[str, ...],
) -> None:
    key, token = issued[number - 1]
    assert [status(site, token) for site in (*workers, *workers)] == [200] * 4
    workers[0].manage(*(word.format(key=key, number=number) for word in command))
    wait_until(lambda: [status(site, token) for site in workers] == [401, 401], seconds=10)
