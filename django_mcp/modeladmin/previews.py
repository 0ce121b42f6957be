"""Two steps for operations that cannot be undone: a preview, and the call that confirms it.

| the client | the first call | then |
|---|---|---|
| can ask its user | asks them | runs, if they agree and nothing has changed |
| cannot | returns a preview and ``confirm`` | a second call with ``confirm`` runs |

``confirm`` is signed for its caller, the operation and the objects, with a digest of the preview.
The second step computes the digest again, and is refused if anything has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.db.models import Model

from django_mcp.core.protocol.errors import MissingClientCapability, ToolError
from django_mcp.modeladmin.calls import Call

PURPOSE = "modeladmin"
MAX_AGE = 24 * 3600.0
"""Seconds until a preview expires: a person may have to approve the call."""
MAX_QUESTION = 2_000
CONFIRMATION = {
    "type": "object",
    "properties": {"sure": {"type": "boolean", "title": "Do it"}},
    "required": ["sure"],
}
CHANGED = "Something has changed since the preview. Nothing was done: call again without confirm."


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The effects of an operation before it runs."""

    subject: Sequence[Any]
    """The operation, the model and the objects, as JSON."""
    shown: Mapping[str, Any]
    """The result of the first call."""
    state: str
    """A digest of the objects and of the effects on them."""
    question: str

    @property
    def bound_to(self) -> str:
        return json.dumps(self.subject, default=str)


def digest(objects: Sequence[Model], *facts: Any) -> str:
    """Return a digest of all columns of objects, and of further facts."""
    columns = [
        [(field.attname, _column(field, obj)) for field in obj._meta.concrete_fields]
        for obj in objects
    ]
    return sha256(json.dumps([columns, facts], default=str).encode()).hexdigest()


def _column(field: Any, obj: Model) -> str | None:
    # Some fields have no text for null.
    return None if field.value_from_object(obj) is None else field.value_to_string(obj)


def confirmed(
    call: Call, preview: Preview, confirm: str | None, *, may_ask: bool
) -> dict[str, Any] | None:
    """Return None if the operation may run, else the result of the tool; raises ToolError."""
    frame = call.frame
    key = frame.principal.key
    bound_to = (call.models.site.name, preview.bound_to)
    if confirm is not None:
        state = frame.server.unsign(PURPOSE, key, confirm, *bound_to, max_age=MAX_AGE)
        if state is None:
            raise ToolError(
                "confirm is not of a preview of this call, or it is too old. Nothing was done: "
                "call again without confirm."
            )
        if state != preview.state:
            raise ToolError(CHANGED)
        return None
    if may_ask and _asked(call, preview):
        return None
    token = frame.server.sign(PURPOSE, key, preview.state, *bound_to)
    return {"preview": dict(preview.shown), "done": False, "confirm": token}


def _asked(call: Call, preview: Preview) -> bool:
    """Return whether the user agreed, False if they cannot be asked; raises ToolError."""
    # Where something has changed meanwhile, the user is asked again.
    key = f"confirm_{preview.state[:16]}"
    try:
        answer = call.frame.client.elicit(preview.question[:MAX_QUESTION], CONFIRMATION, key=key)
    except MissingClientCapability:
        return False
    if not answer.accepted or not answer.content["sure"]:
        raise ToolError("Nothing was done: the user did not confirm it.")
    return True


def check_unchanged(before: Preview, now: Preview) -> None:
    """Raise ToolError if the objects are not as the caller saw them."""
    if before.state != now.state:
        raise ToolError(CHANGED)
