"""A worker of a site with events: it changes rows, and delivers to webhooks, until it is killed.

``subscribe URL SECRET`` prepares two subscribers, ``work NUMBER WORKERS CHANGES`` is a worker, and
``report`` prints the rows at the end.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time

import django

django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402 - Django is set up first.
from django.db import transaction  # noqa: E402

from django_mcp.contrib.events import delivery  # noqa: E402
from django_mcp.contrib.events.models import Delivery, Subscription  # noqa: E402
from django_mcp.registry import default  # noqa: E402
from django_mcp.runtime import request_scope  # noqa: E402
from django_mcp.testing import Client  # noqa: E402
from tests.services.site.group_events import group_created  # noqa: E402

READERS = ("ann", "bob")
HIDDEN = 5
"""One of so many rows is for nobody, and one more is rolled back."""


async def subscribe(url: str, secret: str) -> None:
    for name in READERS:
        user = await User.objects.acreate_superuser(name)
        target = {"mode": "webhook", "url": f"{url}/{name}", "secret": secret}
        async with Client(default, user=user) as client:
            await client.request(
                "events/subscribe", {"name": group_created.name, "delivery": target}
            )


async def work(number: int, workers: int, changes: int) -> None:
    await delivery.start()
    thread = threading.Thread(target=make_changes, args=(number, workers, changes), daemon=True)
    thread.start()
    await asyncio.Event().wait()


def make_changes(number: int, workers: int, changes: int) -> None:
    """Create the rows of a worker, in the order of their numbers, from the last one on."""
    mine = Group.objects.filter(name__endswith=f" {number}")
    present = [int(name.split()[1]) for name in mine.values_list("name", flat=True)]
    first = max(present, default=number - workers) + workers
    for each in range(first, changes, workers):
        reader = "nobody" if each % HIDDEN == 0 else READERS[each % len(READERS)]
        if each % HIDDEN == 1:
            with transaction.atomic():
                Group.objects.create(name=f"{reader} {each} rolled back")
                transaction.set_rollback(True)
        with transaction.atomic():
            Group.objects.create(name=f"{reader} {each} {number}")
            time.sleep(0.002)  # Others commit meanwhile, also with a later id.


def report() -> None:
    rows = Group.objects.order_by("id").values_list("name", flat=True)
    waiting = delivery.has_work()
    leased = Subscription.objects.exclude(lease_owner="").exists()
    deliveries = [*Delivery.objects.values_list("status", flat=True)]
    print(json.dumps([[*rows], waiting or leased, {s: deliveries.count(s) for s in {*deliveries}}]))


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "subscribe":
        asyncio.run(request_scope.run(subscribe, *given))
    elif what == "work":
        asyncio.run(work(*map(int, given)))
    else:
        report()
