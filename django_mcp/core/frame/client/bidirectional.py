"""Input requests in revisions with sessions: sent on the open stream of the call or session.

The client of a Frame made by hand is here as well.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp.core.frame.client import input_requests
from django_mcp.core.frame.client.base import Client
from django_mcp.core.frame.client.input_requests import InputRequests, Responses
from django_mcp.core.frame.exchange import NULL_EXCHANGE
from django_mcp.core.protocol.revisions import NEWEST


class BidirectionalClient(Client):
    """A client which receives requests of the server and responds to them."""

    async def _request(self, requests: InputRequests, timeout: float | None) -> Responses:
        seconds = input_requests.RESPONSE_TIMEOUT if timeout is None else timeout
        sending = [
            self._exchange.send_request(request.method, self._params(request), timeout=seconds)
            for request in requests.values()
        ]
        return dict(zip(requests, await asyncio.gather(*sending), strict=True))


class NullClient(BidirectionalClient):
    """Drops notifications; an input request raises ConnectionError."""

    def __init__(self) -> None:
        super().__init__(None, NEWEST, {}, NULL_EXCHANGE)  # type: ignore[arg-type]

    def log(self, *args: Any, **options: Any) -> None:
        """Do nothing."""

    def _require(self, requests: InputRequests) -> None:
        raise ConnectionError(
            "This Frame was made by hand and has no client: use django_mcp.testing.Client to test "
            "a handler which requests input"
        )

    def __reduce__(self) -> str:
        return "NULL_CLIENT"


NULL_CLIENT = NullClient()
