"""Signatures of webhooks, verified by the JavaScript library of Standard Webhooks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from django_mcp.contrib.events.testing import new_secret
from django_mcp.contrib.events.webhook_requests import Message, signed
from tests.clients import environments
from tests.spec import spec

SCRIPT = Path(__file__).with_name("webhooks") / "verify.cjs"


def verified(*sent: dict[str, Any]) -> list[Any]:
    """Return the content of each webhook, or the error message of the library."""
    modules = environments.made("webhooks") / "node_modules"
    done = subprocess.run(
        [modules / ".bin" / "node", SCRIPT],
        input=json.dumps(sent),
        env={**os.environ, "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        check=True,
    )
    results: list[Any] = json.loads(done.stdout)
    return results


@pytest.mark.nightly
@spec("EV-51", "EV-52")
def test_library_for_javascript_verifies_the_signatures() -> None:
    old = new_secret()
    new = new_secret()
    event = Message("event-1", json.dumps({"data": {"text": "Grüße 🎉"}}).encode())
    control = Message.control("gap", cursor="c")
    of_both = signed([new, old], event)

    results = verified(
        {"secret": new, "headers": of_both, "body": event.body.decode()},
        {"secret": old, "headers": of_both, "body": event.body.decode()},
        {"secret": old, "headers": signed([old], control), "body": control.body.decode()},
        {"secret": new, "headers": signed([old], control), "body": control.body.decode()},
        {"secret": old, "headers": signed([old], control), "body": event.body.decode()},
    )

    content = {"data": {"text": "Grüße 🎉"}}
    wrong = "No matching signature found"
    assert results == [content, content, {"type": "gap", "cursor": "c"}, wrong, wrong]
