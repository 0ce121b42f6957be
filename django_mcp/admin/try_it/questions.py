"""The questions of a call, each with the form that answers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.http import QueryDict

from django_mcp.admin.try_it.forms import SchemaForm
from django_mcp.admin.try_it.members import MISSING
from django_mcp.admin.try_it.rendering import safe_url
from django_mcp.core.protocol.errors import Json

ACCEPT = "accept"
ACTIONS = (ACCEPT, "decline", "cancel")
"""The buttons, and the answers that they send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An input request; ``form`` is None for one that sends its user to a page."""

    key: str
    message: str
    form: SchemaForm | None = None
    url: str = ""
    """The page, or "" if it is none of the web."""
    host: str = ""

    def response(self, action: str) -> dict[str, Any]:
        """Return the result of the elicitation."""
        if action != ACCEPT or self.form is None:
            return {"action": action}
        content = self.form.value()
        return {"action": action, "content": {} if content is MISSING else content}


def questions_of(requests: Mapping[str, Json], data: QueryDict | None = None) -> list[Question]:
    """Return the questions; ``data`` are the posted answers."""
    return [_question(key, request["params"], data) for key, request in requests.items()]


def are_valid(questions: Iterable[Question]) -> bool:
    """Whether all forms can be sent; each of them then shows its errors."""
    validities = [question.form.is_valid() for question in questions if question.form is not None]
    return all(validities)


def _question(key: str, params: Json, data: QueryDict | None) -> Question:
    message = str(params.get("message", ""))
    if params.get("mode") == "url":
        url = safe_url(str(params.get("url", "")))
        return Question(key=key, message=message, url=url, host=urlsplit(url).netloc)
    schema = params.get("requestedSchema") or {}
    form = SchemaForm(schema, data, name=f"answer:{key}")
    return Question(key=key, message=message, form=form)
