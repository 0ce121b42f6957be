"""Input requests in revisions with sessions: sent on the open stream of the call or session."""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp.core.frame.client import input_requests
from django_mcp.core.frame.client.base import Client
from django_mcp.core.frame.client.input_requests import InputRequests


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
