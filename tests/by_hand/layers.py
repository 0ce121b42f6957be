"""Channel layers which reach nobody."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from channels.exceptions import ChannelFull
from channels.layers import BaseChannelLayer


class EmptyLayer(BaseChannelLayer):
    """A layer of a site with several workers, none of which ever says anything."""

    def __init__(self, **options: Any) -> None:
        super().__init__(expiry=60)

    async def new_channel(self, prefix: str = "specific") -> str:
        return f"{prefix}.{secrets.token_hex(8)}!x"

    async def receive(self, channel: str) -> Any:
        await asyncio.Event().wait()

    async def send(self, channel: str, message: Any) -> None:
        """Lose it."""

    async def group_add(self, group: str, channel: str) -> None:
        """Nobody is in a group."""

    async def group_discard(self, group: str, channel: str) -> None:
        """Nobody is in a group."""

    async def group_send(self, group: str, message: Any) -> None:
        """Lose it."""


class FullLayer(EmptyLayer):
    """A layer whose channels are all full."""

    async def send(self, channel: str, message: Any) -> None:
        raise ChannelFull
