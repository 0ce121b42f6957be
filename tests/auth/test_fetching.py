"""Requests to authorization servers: documents, and threads that wait for them."""

from __future__ import annotations

import threading

import pytest

from django_mcp.auth.issuers import fetching
from django_mcp.auth.issuers.fetching import Unavailable, fetch_json, metadata_urls
from tests.auth.issuer import running_issuer


def test_longer_document_is_not_read() -> None:
    with running_issuer() as issuer:
        issuer.answers["/long"] = lambda _: (200, {}, b" " * 10_000_000)
        with pytest.raises(Unavailable, match="more than 100 bytes"):
            fetch_json(f"{issuer.url}/long", limit=100)


def test_metadata_of_an_issuer_without_a_path_has_two_places() -> None:
    assert [*metadata_urls("https://issuer.example/")] == [
        "https://issuer.example/.well-known/oauth-authorization-server",
        "https://issuer.example/.well-known/openid-configuration",
    ]


async def test_fault_of_a_request_is_logged_and_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise RuntimeError("A fault")

    with pytest.raises(Unavailable):
        await fetching.result_of(fetching.submit(fetching.thread_pool(1, max_waiting=0), fail), 5)

    assert "A fault" in caplog.text


async def test_submitted_requests_beyond_the_bound_are_rejected() -> None:
    is_over = threading.Event()
    pool = fetching.thread_pool(1, max_waiting=1)
    running = [fetching.submit(pool, is_over.wait) for _ in range(2)]

    with pytest.raises(Unavailable, match="Too many"):
        fetching.submit(pool, is_over.wait)

    is_over.set()
    for future in running:
        assert await fetching.result_of(future, 5)
