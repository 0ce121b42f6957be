"""Constants of the package that a test sets to a small value, by the name that the test uses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

SetConstants = Callable[..., None]

CONSTANTS = {
    "EVENTS_PER_STREAM": "django_mcp.stores.EVENTS_PER_STREAM",
    "EVENT_LIFETIME": "django_mcp.stores.EVENT_LIFETIME",
    "LAYER_TIMEOUT": "django_mcp.pubsub.bus.TIMEOUT",
    "MAX_IN_FLIGHT_PER_PROCESS": "django_mcp.core.dispatch.calls_in_flight.MAX_PER_PROCESS",
    "MAX_STREAMS": "django_mcp.transports.http.open_streams.MAX_STREAMS",
    "MAX_SUBSCRIPTIONS": "django_mcp.core.dispatch.methods.subscriptions.MAX_SUBSCRIPTIONS",
    "MAX_TASKS_PER_CALLER": "django_mcp.tasks.store.MAX_TASKS_PER_CALLER",
    "MAX_TASK_TTL_MS": "django_mcp.tasks.calls.MAX_TTL_MS",
    "MAX_WAITING_APPROVALS": "django_mcp.contrib.approvals.step.MAX_WAITING",
    "REQUEST_STATE_LIFETIME": "django_mcp.core.frame.client.request_state.LIFETIME",
    "RESPONSE_TIMEOUT": "django_mcp.core.frame.client.input_requests.RESPONSE_TIMEOUT",
    "SESSIONS_PER_PRINCIPAL": "django_mcp.stores.SESSIONS_PER_PRINCIPAL",
    "STREAMS_PER_SESSION": "django_mcp.stores.STREAMS_PER_SESSION",
}


@pytest.fixture
def set_constants(monkeypatch: pytest.MonkeyPatch) -> SetConstants:
    """Sets constants for this test, before it uses what is made with them."""

    def set_constants(**values: object) -> None:
        from django_mcp import stores

        for name, value in values.items():
            monkeypatch.setattr(CONSTANTS[name], value)
        # The test's stores are made with the new values. Others are when the settings change back.
        stores.sessions.cache_clear()
        stores.events.cache_clear()

    return set_constants
