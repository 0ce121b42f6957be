"""The challenge of a receiver, signatures, and attempts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from standardwebhooks import Webhook

from django_mcp.contrib.events import webhook_requests
from django_mcp.contrib.events.errors import CallbackEndpointError, ResourceExhausted
from django_mcp.contrib.events.testing import FakeReceiver, new_secret
from django_mcp.contrib.events.webhook_requests import Message
from django_mcp.core.protocol.errors import InvalidParams
from django_mcp.outbound import OutboundError, Reason, Response
from tests.memory_stores import configure
from tests.rows import rows
from tests.spec import spec

__all__ = ["configure"]


@pytest.fixture
def receiver(configure: Any) -> Iterator[FakeReceiver]:
    with FakeReceiver() as receiver:
        yield receiver


async def reason_of(url: str, secret: str) -> str:
    """Return why a receiver is not verified."""
    with pytest.raises(CallbackEndpointError) as caught:
        await webhook_requests.verify(url, secret, "id")
    data = caught.value.data
    assert isinstance(data, dict)
    return str(data["reason"])


# Verification.


@spec("EV-52")
async def test_receiver_that_answers_the_challenge_is_verified(receiver: FakeReceiver) -> None:
    await webhook_requests.verify(receiver.url, receiver.secret, "id")

    sent = receiver.requests[0]
    assert sent.id.startswith("msg_verification_")
    assert sent.subscription == "id"
    assert len(sent.body["challenge"]) > 40


async def test_receiver_with_another_answer_is_not_verified(receiver: FakeReceiver) -> None:
    receiver.answers_challenges = False

    assert await reason_of(receiver.url, receiver.secret) == "challenge_failed"


async def test_receiver_that_refuses_the_signature_is_not_verified(receiver: FakeReceiver) -> None:
    assert await reason_of(receiver.url, new_secret()) == "http_4xx"
    assert receiver.refused == ["No matching signature found"]


@spec("EV-56")
async def test_private_receiver_is_refused_like_one_that_is_away(configure: Any) -> None:
    assert await reason_of("https://127.0.0.1/hook", new_secret()) == "connection_refused"


async def test_url_without_tls_is_refused(configure: Any) -> None:
    with pytest.raises(InvalidParams, match="https"):
        await webhook_requests.verify("http://hooks.example/", new_secret(), "id")


@spec("EV-56")
async def test_challenges_of_a_host_are_bounded(
    receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_requests, "MAX_CHALLENGES", 2)
    monkeypatch.setattr(time, "time", lambda: 1_000_000_000.0)
    for _ in range(2):
        await webhook_requests.verify(receiver.url, receiver.secret, "id")
    with pytest.raises(ResourceExhausted):
        await webhook_requests.verify(f"{receiver.url}/other", receiver.secret, "id")
    assert len(receiver.requests) == 2


@rows("answer", [b"", b"[]", b'"text"', b'{"challenge": 1}', b"{", b"[" * 100_000])
def test_answer_without_a_challenge_is_none(answer: bytes) -> None:
    assert webhook_requests._challenge_of(answer) == ""


# Signatures and attempts.


@spec("EV-46", "EV-51")
def test_each_secret_signs() -> None:
    secrets = [new_secret(), new_secret()]
    message = Message("event-1", '{"data":"ä"}'.encode())
    headers = webhook_requests.signed(secrets, message)

    for secret in secrets:
        assert Webhook(secret).verify(message.body, headers) == {"data": "ä"}
    assert len(headers["webhook-signature"].split(" ")) == 2


@rows(
    ("reason", "error"),
    [
        ("timeout", "timeout"),
        ("tls_error", "tls_error"),
        ("not_public", "connection_refused"),
        ("not_resolved", "connection_refused"),
        ("connection_refused", "connection_refused"),
        ("invalid_response", "connection_refused"),
        ("too_large", "connection_refused"),
    ],
)
def test_error_of_a_request_is_one_of_the_protocol(reason: Reason, error: str) -> None:
    def fail(*_: Any, **__: Any) -> Response:
        raise OutboundError(reason, "text")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webhook_requests, "open_url", fail)
        outcome = webhook_requests.send("https://h/", [new_secret()], "id", Message("1", b"{}"))

    assert (outcome.is_accepted, outcome.error, outcome.is_final) == (False, error, False)


@rows(("asked", "seconds"), [("120", 120.0), ("²", 0.0), ("9" * 5000, 0.0), ("soon", 0.0)])
def test_time_for_which_a_receiver_asks_is_read(asked: str, seconds: float) -> None:
    with FakeReceiver() as receiver:
        receiver.status = 429
        receiver.headers["Retry-After"] = asked
        outcome = webhook_requests.send(receiver.url, [receiver.secret], "id", Message("1", b"{}"))

    assert (outcome.error, outcome.retry_after) == ("http_4xx", seconds)


@pytest.mark.parametrize("length", [webhook_requests.MAX_ANSWER + 1, 10**12, 5])
@pytest.mark.parametrize(("status", "is_accepted"), [(200, True), (410, False)])
def test_status_decides_whatever_the_body_is(status: int, is_accepted: bool, length: int) -> None:
    class Large(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            with suppress(OSError):  # The other side has read enough.
                self.wfile.write(b"x" * min(length - 1, 10 * webhook_requests.MAX_ANSWER))

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Large) as host, FakeReceiver():
        thread = threading.Thread(target=host.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{host.server_port}/"
        outcome = webhook_requests.send(url, [new_secret()], "id", Message("1", b"{}"))
        thread.join(10)

    assert (outcome.is_accepted, outcome.is_final) == (is_accepted, not is_accepted)
    assert len(outcome.answer) <= webhook_requests.MAX_ANSWER
