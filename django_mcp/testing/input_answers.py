"""The answers of the test client to the input requests of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import isawaitable
from typing import Any

from django_mcp.core.protocol.errors import Json, McpError
from django_mcp.core.protocol.schema import compiler

Answer = Json | Callable[[dict[str, Any]], Json | Awaitable[Json]]
"""The response to an input request: a result, or a function of the request's parameters."""

CAPABILITIES: Mapping[str, tuple[str, Json]] = {
    "elicitation/create": ("elicitation", {"form": {}, "url": {}}),
    "sampling/createMessage": ("sampling", {}),
    "roots/list": ("roots", {}),
}
"""The capability that a client declares for each request that it can answer."""


class InputAnswers:
    """The answers that a test gives, by the method of the input request."""

    def __init__(
        self,
        elicitation: Answer | None,
        sampling: Answer | None,
        roots: Answer | Sequence[Json] | None,
    ) -> None:
        given: dict[str, Answer | None] = {
            "elicitation/create": elicitation,
            "sampling/createMessage": sampling,
            "roots/list": {"roots": [*roots]} if isinstance(roots, Sequence) else roots,
        }
        self._answers = {name: answer for name, answer in given.items() if answer is not None}

    @property
    def capabilities(self) -> dict[str, Json]:
        """The capabilities that have an answer."""
        return dict(CAPABILITIES[method] for method in self._answers)

    async def answer(self, request: Json) -> Json:
        """Return the result of an input request; raises McpError if there is no answer to it."""
        method = request["method"]
        if method == "ping":
            return {}
        if method not in self._answers:
            raise McpError(f"The test client has no answer to {method}", code=-32601)
        answer = self._answers[method]
        result = answer(request.get("params", {})) if callable(answer) else answer
        return await result if isawaitable(result) else result

    async def retry_params(self, result: Json) -> dict[str, Any]:
        """The parameters of a repeated request: the responses and the state."""
        requests = result.get("inputRequests", {})
        responses = {name: await self.answer(request) for name, request in requests.items()}
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return {"inputResponses": responses, **state}


def problems_of(requests: Mapping[str, Json], responses: Mapping[str, Any]) -> Iterator[str]:
    """Yield errors in the content of answers, which the server therefore requests again."""
    for name, request in requests.items():
        schema = request.get("params", {}).get("requestedSchema")
        response = responses.get(name)
        if schema is None or not isinstance(response, Mapping):
            continue
        if response.get("action") == "accept":
            content = response.get("content", {})
            yield from compiler.compile(schema).errors(content, name="the answer")


def accept(**content: Any) -> Json:
    """Return the result of an accepted elicitation."""
    return {"action": "accept", "content": content} if content else {"action": "accept"}


def decline() -> Json:
    """Return the result of a declined elicitation."""
    return {"action": "decline"}


def cancel() -> Json:
    """Return the result of a cancelled elicitation."""
    return {"action": "cancel"}
