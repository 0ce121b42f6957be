"""The client of a Frame made by hand."""

from __future__ import annotations

from typing import Any

from django_mcp.core.frame.client.bidirectional import BidirectionalClient
from django_mcp.core.frame.client.input_requests import InputRequests
from django_mcp.core.frame.exchange import NULL_EXCHANGE
from django_mcp.core.protocol.revisions import NEWEST


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
