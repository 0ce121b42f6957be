"""What the test client returns: results with the questions that tests ask, and errors."""

from __future__ import annotations

from typing import Any

from django_mcp.protocol.errors import Json, McpError


class CallResult(dict[str, Any]):
    """A result as the protocol has it, whose text, structure and outcome can be asked for."""

    @property
    def text(self) -> str:
        """The texts of a tool's content, a resource or a prompt, joined by newlines."""
        return "\n".join(block["text"] for block in self._blocks() if "text" in block)

    @property
    def structured(self) -> Any:
        """The structured content of a tool; None if there is none."""
        return self.get("structuredContent")

    @property
    def is_error(self) -> bool:
        """Whether the call of the tool has failed."""
        return self.get("isError") is True

    def _blocks(self) -> list[dict[str, Any]]:
        messages = [message["content"] for message in self.get("messages", ())]
        return [*self.get("content", ()), *self.get("contents", ()), *messages]


class ErrorResponse(McpError):
    """The server returned an error: ``code``, ``message``, ``data`` and, over HTTP, ``status``."""

    def __init__(self, error: Json, *, status: int | None = None) -> None:
        super().__init__(error["message"], code=error["code"], data=error.get("data"))
        self.status = status

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
