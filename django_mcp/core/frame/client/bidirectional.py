"""Input requests in revisions with sessions: sent on the open stream of the call or session.

The client of a Frame made by hand is here as well.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp.core.frame.client import input_requests
from django_mcp.core.frame.client.base import Client
from django_mcp.core.frame.client.input_requests import InputRequests
from django_mcp.core.frame.exchange import NULL_EXCHANGE
from django_mcp.core.protocol.revisions import NEWEST


class BidirectionalClient(Client):
    """A client which receives requests of the server and responds to them."""

    async def _answers(self, requests: InputRequests, timeout: float) -> dict[str, Any]:
        answers = await asyncio.gather(*(self._answer(item, timeout) for item in requests.values()))
        return dict(zip(requests, answers, strict=True))

    async def _answer(self, request: input_requests.InputRequest[Any], timeout: float) -> Any:
        """Return the response; an invalid one is requested again."""
        params = self._params(request)
        for attempt in range(1, ATTEMPTS + 1):
            result = await self._exchange.send_request(request.method, params, timeout=timeout)
            try:
                return request.read(result)
            except input_requests.InvalidClientResponse:
                if attempt == ATTEMPTS:
                    raise


ATTEMPTS = 3
"""How often input is requested while the responses are invalid."""


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
