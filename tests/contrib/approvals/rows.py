"""Rows of calls that wait, for tests without a server."""

from __future__ import annotations

from datetime import timedelta
from secrets import token_urlsafe
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from django_mcp.contrib.approvals.models import EXTENSION, Approval, fingerprint
from django_mcp.stores.base import digest
from django_mcp.tasks import store
from django_mcp.tasks.store import ApprovalRequest, NewTask
from tests.contrib.approvals.till import (
    PERMISSION,
    browser_of,
    decision,
    page_of,
)

LIFETIME = 3600.0


def described(
    *, amount: int = 7, four_eyes: bool = False, user_key: str = ""
) -> tuple[NewTask, ApprovalRequest]:
    """A call of ``pay`` that waits for an hour."""
    arguments = {"amount": amount}
    own_digest = fingerprint("till", "pay", arguments, "")
    owner = digest("ann")
    call = {
        "id": 1,
        "params": {"name": "pay", "arguments": arguments},
        "principal": ["jwt", "ann", [], {}],
        "user_key": user_key,
        "endpoint": "",
        "path_params": {},
        "client_info": {},
        "client_capabilities": {},
        "language": "en",
        "session_id": None,
        "changed": {"assigns": {}, "private": {}},
        "is_task": False,
        "granted_by": EXTENSION,
        "approval": {"permission": PERMISSION, "four_eyes": four_eyes, "owner": owner},
    }
    new = NewTask(
        server="till",
        tool="pay",
        version="2026-07-28",
        principal="jwt:ann",
        user_key=user_key,
        owner=owner,
        caller=digest("ann"),
        call=call,
        ttl_ms=round(2 * LIFETIME * 1000),
        open_key=digest(owner, own_digest),
    )
    columns = {
        "title": "Pay",
        "permission": PERMISSION,
        "four_eyes": four_eyes,
        "digest": own_digest,
    }
    return new, ApprovalRequest(
        token_urlsafe(16), Approval, columns, timedelta(seconds=LIFETIME), limit=10
    )


async def request(
    *, amount: int = 7, four_eyes: bool = False, user_key: str = ""
) -> tuple[str, bool]:
    """Store the call; return its id, and whether it is new."""
    new, approval = described(amount=amount, four_eyes=four_eyes, user_key=user_key)
    return await store.get().create_waiting(new, approval)


async def decide(key: str, who: User, choice: str = "approve", **changed: Any) -> Any:
    """Decide on the page, as a browser does."""

    def post() -> Any:
        return browser_of(who).post(page_of(key), decision(key, choice, **changed))

    return await sync_to_async(post)()
