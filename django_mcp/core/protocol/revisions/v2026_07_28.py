"""2026-07-28: stateless. Each request has its own metadata, and any worker can answer it."""

from django_mcp.core.protocol.revisions.base import Feature, Statefulness, Structured, names
from django_mcp.core.protocol.revisions.v2025_11_25 import V2025_11_25

V2026_07_28 = V2025_11_25.revise(
    "2026-07-28",
    adds={
        "requests": "server/discover subscriptions/listen tasks/update",
        "server_notifications": "notifications/subscriptions/acknowledged notifications/tasks",
        "cacheable": (
            "server/discover tools/list prompts/list resources/list resources/templates/list "
            "resources/read"
        ),
        "error_codes": {
            "resource_not_found": -32602,
            "header_mismatch": -32020,
            "missing_required_client_capability": -32021,
            "unsupported_protocol_version": -32022,
            # The code of older revisions must not be sent in this one.
            "url_elicitation_required": -32603,
            # Codes from -32019 to -32000 are the legacy range (ERR-01).
            "execution_error": -32603,
            "transport_error": -32603,
        },
        "http_statuses": {
            "invalid_request": 400,
            "invalid_params": 400,
            "resource_not_found": 400,
            "header_mismatch": 400,
            "missing_required_client_capability": 400,
            "unsupported_protocol_version": 400,
            "method_not_found": 404,
        },
        # The legacy range and the range of the specification (ERR-01 to ERR-03).
        "reserved_codes": range(-32099, -31999),
        "features": {
            Feature.RESULT_TYPES,
            Feature.REQUEST_HEADERS,
            Feature.MULTI_ROUND_TRIP,
            Feature.LISTEN_STREAMS,
            Feature.DISCONNECT_CANCELS,
            Feature.BOOLEAN_PROPERTIES,
            Feature.TASKS_EXTENSION,
        },
    },
    drops={
        "requests": (
            "initialize ping logging/setLevel resources/subscribe resources/unsubscribe "
            "tasks/result tasks/list"
        ),
        "notifications": (
            "notifications/initialized notifications/progress notifications/roots/list_changed"
        ),
        "server_notifications": "notifications/elicitation/complete notifications/tasks/status",
        "server_requests": "ping",
        "fields": {"tool": "execution", "elicitation/create": "elicitationId"},
        "features": {Feature.PRIMING_EVENTS, Feature.TASKS},
    },
    # Tasks are an extension now.
    capabilities={
        name: flags for name, flags in V2025_11_25.capabilities.items() if name != "tasks"
    },
    statefulness=Statefulness.STATELESS,
    deprecated=names("roots/list sampling/createMessage notifications/message"),
    input_request_methods=names("tools/call prompts/get resources/read"),
    structured=Structured.ANYTHING,
)
