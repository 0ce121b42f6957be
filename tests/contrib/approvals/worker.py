"""A worker process of a site whose only tool needs an approval; the run writes a line to a file.

``python -m tests.contrib.approvals.worker <database> <file> <action> <id>`` prints "ready" and
starts after a line of input. The database is an entry of ``DATABASES`` as JSON. Actions: "approve",
after which the process kills itself before the run; "run", which prints the status afterwards; and
"hang", which runs a tool that never returns.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import django
from django.conf import settings

APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp.apps.SimpleMcpConfig",
    "django_mcp.contrib.approvals",
]
PERMISSION = "auth.change_group"


def approver(name: str = "bob") -> Any:
    """Somebody who may approve, without a row."""
    return SimpleNamespace(
        pk=name, is_active=True, has_perm=lambda name: True, get_username=lambda: name
    )


def serve(file: Path, *, hangs: bool) -> None:
    """Register the server."""
    registry = import_module("django_mcp.registry")
    server = import_module("django_mcp.core.server.server").Server("till", authenticators=[])

    def pay(amount: int) -> str:
        """Pay out money."""
        with file.open("a") as lines:
            print("paid", amount, file=lines, flush=True)
        if hangs:
            time.sleep(600)
        return f"Paid {amount}"

    server.tool(approval=PERMISSION)(pay)
    registry.add(server)


def act(action: str, key: str) -> None:
    """Do what the command names."""
    models = import_module("django_mcp.contrib.approvals.models")
    row = models.Approval.objects.get(pk=key)
    if action == "approve":
        assert row.decide(approver(), models.Decision.APPROVE, where="page")
        os.kill(os.getpid(), signal.SIGKILL)
    import_module("django_mcp.tasks.execution").run_in_new_loop(key)
    print(models.Approval.objects.get(pk=key).phase, flush=True)


if __name__ == "__main__":
    database, file, action, key = sys.argv[1:]
    settings.configure(
        DATABASES={"default": json.loads(database)},
        INSTALLED_APPS=APPS,
        SECRET_KEY="worker",
        USE_TZ=True,
        ROOT_URLCONF="tests.contrib.approvals.worker",
        DJANGO_MCP={"NAME": "worker"},
    )
    django.setup()
    serve(Path(file), hangs=action == "hang")
    print("ready", flush=True)
    sys.stdin.readline()
    act(action, key)

urlpatterns: list[Any] = []
