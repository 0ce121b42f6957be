"""The example site at work: calls of two weeks, sessions, and refunds that wait."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.browser.agent import call, issued_token
from tests.browser.chromium import TIMEOUT
from tests.running_site import RunningSite, running_site
from tests.wire.live import SyncLiveClient

REFUNDS = (
    {"number": 17, "amount": "49.90", "reason": "The printer was charged twice."},
    {"number": 42, "amount": "120.00", "reason": "The repair was late."},
    {"number": 3, "amount": "15.50", "reason": "A reminder went to the wrong address."},
)
SESSIONS = (
    ("Inspector", "0.17.2", "2025-11-25", False),
    ("Visual Studio Code", "1.108", "2025-06-18", True),
    ("claude-code", "2.1.0", "2025-11-25", True),
)
"""Clients with a session: name, version, revision, and whether it has the token of the agent."""
PAST_CALLS = """
from datetime import timedelta
from random import Random
from django.contrib.auth.models import User
from django.utils import timezone
from django_mcp.contrib.call_log.models import Call, class_of

COMPONENTS = (
    # Kind, name, weight, usual milliseconds and bytes; the first ones are for everybody.
    ("tool", "search_tickets", 30, 12, 1900),
    ("resource", "ticket://{pk}", 18, 7, 1100),
    ("tool", "add_comment", 12, 9, 140),
    ("tool", "check_answer_times", 4, 60, 2600),
    ("tool", "my_tickets", 10, 10, 1500),
    ("tool", "close_ticket", 8, 15, 260),
    ("tool", "list_customers", 3, 8, 1700),
)
CALLERS = (
    # User, program, version, revision, weight.
    ("agent", "Desk assistant", "2.1", "2026-07-28", 10),
    ("supervisor", "Ticket assistant", "1.4", "2026-07-28", 5),
    ("admin", "Visual Studio Code", "1.108", "2025-06-18", 3),
    (None, "Inspector", "0.17.2", "2025-11-25", 2),
)
random = Random(1)
User.objects.create(username="supervisor")
users = {user.username: user for user in User.objects.all()}
today = timezone.now().replace(hour=8, minute=0)
rows = []
for days in range(13, 0, -1):
    opened = today - timedelta(days=days)
    number = random.randint(15, 30) if opened.weekday() > 4 else random.randint(90, 140)
    for minutes in sorted(random.uniform(0, 600) for _ in range(number)):
        caller = random.choices(CALLERS, [each[-1] for each in CALLERS])[0]
        name, program, version, revision, _ = caller
        user = users.get(name)
        offered = COMPONENTS if user else COMPONENTS[:4]
        kind, component, _, usual, size = random.choices(offered, [each[2] for each in offered])[0]
        failed = random.random() < 0.04
        duration = usual / 1000 * random.lognormvariate(0, 0.5)
        rows.append(Call(
            called_at=opened + timedelta(minutes=minutes), day=opened.date(),
            user=user, principal=f"user:{user.pk}" if user else "anonymous",
            program=program if user else "", client_name=program, client_version=version,
            revision=revision, server="mcp", kind=kind, component=component,
            target=component.replace("{pk}", str(random.randint(1, 200))),
            outcome="error" if failed else "ok", is_error=failed,
            duration=duration, duration_class=class_of(duration),
            arguments_size=40, response_size=int(size * random.uniform(0.4, 1.6)),
        ))
Call.objects.bulk_create(rows)
"""
"""The same rows on each run, but for the days."""


@contextmanager
def busy_site() -> Iterator[RunningSite]:
    """Run the example site within the block."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_site(demo_data=True) as site,
        httpx.Client(timeout=TIMEOUT) as http,
        ExitStack() as streams,
    ):
        site.manage("shell", "--verbosity", "0", "--command", PAST_CALLS)
        token = issued_token(site, Path(folder) / "token")
        for text in ("printer", "invoice", "late"):
            call(site, token, "search_tickets", text=text)
        call(site, token, "close_ticket", number=418)
        for arguments in REFUNDS:
            call(site, token, "refund", **arguments)
        for client in _clients(site, http, token):
            client.initialize()
        streams.enter_context(client.stream())
        yield site


def _clients(site: RunningSite, http: httpx.Client, token: str) -> Iterator[SyncLiveClient]:
    for name, version, revision, has_token in SESSIONS:
        yield SyncLiveClient(
            http,
            site.url("/mcp"),
            revision,
            client_info={"name": name, "version": version},
            headers={"authorization": f"Bearer {token}"} if has_token else {},
        )
