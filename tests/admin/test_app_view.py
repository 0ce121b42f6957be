"""What the view of a tool asks of the page of the workbench: its user decides."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from django_mcp.admin.try_it import app_view

SENT: dict[str, Any] = {"result": {"content": []}}


class Requests:
    """The requests of a page with one tool, and what was forwarded."""

    def __init__(self, annotations: Any, *, is_allowed: Any = None, method: str) -> None:
        params = {"name": "tool", "arguments": {}}
        message = {"method": method, "params": params, "is_allowed": is_allowed}
        self.request = SimpleNamespace(body=json.dumps(message).encode())
        self.forwarded: list[str] = []
        self._annotations = annotations

    def tools(self) -> dict[str, Any]:
        return {"tool": {"name": "tool", **self._annotations}}

    def forward(self, method: str, params: Any) -> Any:
        self.forwarded.append(method)
        return SENT


def ask(annotations: Any, *, is_allowed: Any = None, method: str = "tools/call") -> Any:
    requests: Any = Requests(annotations, is_allowed=is_allowed, method=method)
    answer = json.loads(app_view.forwarded(requests).content)
    assert (answer == SENT) is bool(requests.forwarded)
    return answer


CHANGES_SOMETHING = [
    {},
    {"annotations": None},
    {"annotations": {}},
    {"annotations": {"readOnlyHint": False}},
    {"annotations": {"readOnlyHint": "true"}},
    {"annotations": {"readOnlyHint": 1}},
    {"annotations": {"idempotentHint": True}},
]


@pytest.mark.parametrize("annotations", CHANGES_SOMETHING)
def test_tool_that_may_change_something_is_called_after_the_user_has_allowed_it(
    annotations: Any,
) -> None:
    assert "Do you allow it?" in ask(annotations)["question"]
    assert "question" in ask(annotations, is_allowed=False)
    assert ask(annotations, is_allowed=True) == SENT


def test_read_only_tool_is_called_without_a_question() -> None:
    assert ask({"annotations": {"readOnlyHint": True}}) == SENT


def test_other_methods_are_forwarded() -> None:
    assert ask({}, method="resources/read") == SENT
