"""Results of the test client, with assertions for tests, and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn, Self

from django_mcp.core.components.outputs import OutputSchema
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import AuthenticationRequired, Json, McpError
from django_mcp.core.protocol.tasks import WAITS

MAX_SHOWN = 2000
"""Characters of one message in the text of a failure."""

INPUT_METHODS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})


class ErrorResponse(McpError):
    """The server returned an error: ``code``, ``message``, ``data`` and, over HTTP, ``status``."""

    def __init__(self, error: Json, *, status: int | None = None) -> None:
        super().__init__(error["message"], code=error["code"], data=error.get("data"))
        self.status = status

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class CallResult(dict[str, Any]):
    """A result as the protocol has it, with properties for its text, structure and outcome.

    The assertions return the result, so that they can be chained. They raise AssertionError with
    all messages of the call.
    """

    def __init__(
        self,
        result: Json = {},  # noqa: B006 - it is copied.
        *,
        output: OutputSchema | None = None,
        exchange: Sequence[Json] = (),
        queries: Sequence[str] = (),
        error: ErrorResponse | None = None,
    ) -> None:
        super().__init__(result)
        self._output = output
        self.exchange = exchange
        """The messages of the call in their order: the client's, and the server's."""
        self.queries = queries
        """The SQL of the queries that the call made, on all connections."""
        self.error = error
        """The error that the server returned instead of a result to ``call``, or None."""

    @property
    def text(self) -> str:
        """The texts of a tool's content, a resource or a prompt, joined by newlines."""
        if self.error is not None:
            return self.error.message
        messages = [message["content"] for message in self.get("messages", ())]
        blocks = [*self.get("content", ()), *self.get("contents", ()), *messages]
        return "\n".join(block["text"] for block in blocks if "text" in block)

    @property
    def structured(self) -> Any:
        """The structured content of a tool; None if there is none."""
        return self.get("structuredContent")

    @property
    def data(self) -> Any:
        """The value of the tool's return type, such as a dataclass or a pydantic model.

        Without a type, it is the structured content, or else the text.
        """
        if self.is_error:
            self._fail("there is no value")
        if self._output is not None:
            # Revisions before structured content have its JSON as text.
            has_structure = self.structured is not None
            encoded = jsonrpc.encode(self.structured) if has_structure else self.text.encode()
            return self._output.read(encoded)
        return self.text if self.structured is None else self.structured

    @property
    def is_error(self) -> bool:
        """Whether the call of the tool has failed."""
        return self.error is not None or self.get("isError") is True

    # Assertions.

    def assert_ok(self) -> Self:
        """Fail if the call has failed, or if it waits for an approval."""
        if self.is_error:
            self._fail("the call failed")
        if self._waits_for_approval():
            self._fail("the call waits for an approval")
        return self

    def assert_error(self, text: str = "") -> Self:
        """Fail unless the call has failed with an error that contains ``text``.

        It is the error of a tool, which the model reads, or one of the protocol.
        """
        if not self.is_error:
            self._fail("the call did not fail")
        return self.assert_text(text)

    def assert_text(self, text: str) -> Self:
        """Fail unless the text contains ``text``."""
        if text not in self.text:
            self._fail(f"the text does not contain {text!r}")
        return self

    def assert_structured(self, **members: Any) -> Self:
        """Fail unless the structured content is an object with these members, among others."""
        content = self.structured
        if not isinstance(content, dict):
            self._fail(f"the structured content is {content!r}, which is no object")
        for name, value in members.items():
            if name not in content:
                self._fail(f"the structured content has no member {name!r}")
            if content[name] != value:
                self._fail(f"{name!r} is {content[name]!r} instead of {value!r}")
        return self

    def assert_field_error(self, field: str, text: str = "") -> Self:
        """Fail unless the call has failed because of this argument, with an error about it.

        The argument of an argument is written ``"address.city"``.
        """
        self.assert_error()
        errors = re.findall(rf"(?:^|(?<=[\s;])){re.escape(field)}: ([^\n]*)", self.text)
        if not any(text in error for error in errors):
            self._fail(f"there is no error of the argument {field!r} that contains {text!r}")
        return self

    def assert_input_requested(self, text: str = "") -> Self:
        """Fail unless the server requested input, with a message that contains ``text``."""
        asked: list[Json] = []
        for message in self.exchange:
            if message.get("method") in INPUT_METHODS:
                asked.append(message["params"])
            asked += message.get("result", {}).get("inputRequests", {}).values()
        requests = [json.dumps(each, ensure_ascii=False) for each in asked]
        if not requests:
            self._fail("no input was requested")
        if not any(json.dumps(text, ensure_ascii=False)[1:-1] in request for request in requests):
            self._fail(f"no input was requested with {text!r}")
        return self

    def assert_progress(self, *values: float) -> Self:
        """Fail unless progress was reported: exactly these values, or any."""
        progress = [sent["params"]["progress"] for sent in self._sent("notifications/progress")]
        if not progress:
            self._fail("no progress was reported")
        if values and progress != [*values]:
            self._fail(f"the progress was {progress} instead of {[*values]}")
        return self

    def assert_notified(self, method: str) -> Self:
        """Fail unless the server sent a notification of this method during the call."""
        if not self._sent(method):
            self._fail(f"no {method} was sent")
        return self

    def assert_challenged(self, *scopes: str) -> Self:
        """Fail unless the caller was told to log in, or to obtain these scopes, among others."""
        needed = self._needed_scopes()
        if needed is None:
            self._fail("the caller was not challenged")
        if not set(scopes) <= needed:
            self._fail(f"the caller was challenged for the scopes {sorted(needed)}")
        return self

    def assert_num_queries(self, number: int) -> Self:
        """Fail unless the call made this number of queries, in all its attempts together.

        As with Django's ``assertNumQueries``, savepoints are queries.
        """
        if len(self.queries) != number:
            listed = "\n".join(f"{n}. {sql}" for n, sql in enumerate(self.queries, 1))
            self._fail(f"{len(self.queries)} queries were made instead of {number}:\n{listed}")
        return self

    def assert_waits_for_approval(self) -> Self:
        """Fail unless the call waits until a person has approved it."""
        if not self._waits_for_approval():
            self._fail("the call does not wait for an approval")
        return self

    # The facts that they check.

    def _sent(self, method: str) -> list[Json]:
        return [message for message in self.exchange if message.get("method") == method]

    def _waits_for_approval(self) -> bool:
        task = self.get("task", self)
        return WAITS in f"{task.get('statusMessage')} {self.text}"

    def _needed_scopes(self) -> set[str] | None:
        """The scopes of a challenge; None if the caller was not challenged."""
        if self.error is None:
            return None
        if isinstance(self.error.data, dict) and "scopes" in self.error.data:
            return {*self.error.data["scopes"]}
        return set() if self.error.message == AuthenticationRequired.default_message else None

    def _fail(self, problem: str) -> NoReturn:
        shown = "\n".join(map(_shown, self.exchange))
        raise AssertionError(f"{problem[0].upper()}{problem[1:]}.\n\n{shown}")


def _shown(message: Json) -> str:
    text = json.dumps(message, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
