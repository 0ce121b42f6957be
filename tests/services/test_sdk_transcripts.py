"""Conversations of the official SDKs with three workers: they are those with one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients import environments
from tests.clients.conftest import KINDS, OLD_KINDS, Kind
from tests.clients.real_client import RealClient, real_client
from tests.services.conversation import ANSWERS, HOURS, predictable
from tests.services.workers import Cluster

pytestmark = pytest.mark.nightly

OVER_HTTP = {name: each for name, each in {**KINDS, **OLD_KINDS}.items() if each.over != "stdio"}
REPETITIONS = 2
FOUND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/read", {"uri": HOURS}),
    ("resources/read", {"uri": "desk://tickets/8"}),
    ("prompts/get", {"name": "sum_up", "arguments": {"number": "7"}}),
    ("tools/call", {"name": "ticket", "arguments": {"number": 7}}),
    ("tools/call", {"name": "ticket", "arguments": {"number": 8}}),
    ("tools/call", {"name": "nobody", "arguments": {}}),
    ("tools/call", {"name": "count", "arguments": {"to": 3}}),
)
UPDATED = {True: "notifications/resources/updated", False: "ResourceUpdated"}


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_sdk_has_the_same_conversation_with_three_workers(site: Cluster, kind: str) -> None:
    one = transcript(OVER_HTTP[kind], site.workers[0].url, site)
    for _ in range(REPETITIONS):
        assert transcript(OVER_HTTP[kind], site.nginx.url, site) == one


def transcript(kind: Kind, url: str, site: Cluster) -> list[str]:
    """What the client was told, line by line."""
    path = "/desk/sse" if kind.over == "sse" else "/desk"
    modules = {"NODE_PATH": str(environments.CLIENTS / "ts" / "node_modules")}
    with real_client(kind.command([f"{url}{path}"]), {**site.environment, **modules}) as client:
        found = [client.connected, *(notified(client, *each) for each in FOUND)]
        found.append(notified(client, "tools/call", {"name": "think", "arguments": {}}))
        if kind.version > "2025-03-26":
            found.append(notified(client, "tools/call", {"name": "greet", "arguments": {}}))
        if kind.sessions:
            client.request("resources/subscribe", uri=HOURS)
            client.call("move")
            found.append(client.next_notification(UPDATED[True])["params"]["uri"])
    return [json.dumps(predictable(each), sort_keys=True) for each in found]


def notified(client: RealClient, method: str, params: dict[str, Any]) -> Any:
    """The outcome of a request, and its progress; requests of the server are answered."""
    started = client.start(method, **params)
    lines = []
    while True:
        line = client.next_line()
        if "request" in line:
            client.answer(line, ANSWERS[line["method"]])
            lines.append({"method": line["method"], "params": line["params"]})
        elif line.get("id") == started:
            lines.append(line)
        if line.keys() & {"result", "error"}:
            return lines
