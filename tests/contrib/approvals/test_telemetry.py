"""The spans of calls that wait for an approval."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.testing import Client
from tests.contrib.approvals.rows import decide
from tests.contrib.approvals.till import id_of
from tests.core.dispatch.collected import Collected, collected

__all__ = ["collected"]

pytestmark = pytest.mark.django_db(transaction=True)


async def test_run_of_an_approved_call_is_a_span_below_the_call(
    collected: Collected, server: Server, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
        await decide(key, bob)

    call, run = [span for span in collected.spans() if span.name == "tools/call pay"]
    assert run.parent is not None
    assert run.parent.span_id == call.context.span_id
    assert run.context.trace_id == call.context.trace_id
