"""A revocation by a third process, on two workers which have accepted the token before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.databases import REDIS_URL, why_not_redis
from tests.running_site import RunningSite, two_workers
from tests.waiting import wait_until

NO_LAYER = why_not_redis("channels_redis")
pytestmark = pytest.mark.skipif(NO_LAYER is not None, reason=str(NO_LAYER))

ISSUE = """
from django.contrib.auth.models import User
from django_mcp.tokens.models import PersonalAccessToken
ann, _ = User.objects.get_or_create(username="ann")
open({path!r}, "w").write(PersonalAccessToken.objects.issue(ann, "laptop")[1])
"""
DEACTIVATE = """
from django.contrib.auth.models import User
ann = User.objects.get(username="ann")
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


@pytest.fixture
def workers() -> Iterator[tuple[RunningSite, RunningSite]]:
    """Two processes of one site."""
    with two_workers("tests.tokens.two_workers", REDIS_URL) as sites:
        yield sites


def issue(site: RunningSite, path: Path) -> str:
    site.manage("shell", "--verbosity", "0", "--command", ISSUE.format(path=str(path)))
    return path.read_text()


def status(site: RunningSite, token: str) -> int:
    headers = {**HEADERS, "authorization": f"Bearer {token}"}
    return httpx.post(site.url("/mcp"), json=MESSAGE, headers=headers).status_code


@pytest.mark.parametrize(
    "command",
    [
        ("mcp_token", "revoke", "1"),
        ("shell", "--verbosity", "0", "--command", DEACTIVATE),
    ],
    ids=["revoked", "deactivated"],
)
def test_all_workers_reject_a_token_at_once(
    workers: tuple[RunningSite, RunningSite], tmp_path: Path, command: tuple[str, ...]
) -> None:
    token = issue(workers[0], tmp_path / "token")
    assert [status(site, token) for site in (*workers, *workers)] == [200] * 4
    workers[0].manage(*command)
    wait_until(lambda: [status(site, token) for site in workers] == [401, 401], seconds=10)
