"""2026-07-28: no sessions. Each request carries its own metadata, and any worker answers it."""

from django_mcp.protocol.revisions.base import Feature, Statefulness, Structured
from django_mcp.protocol.revisions.v2025_11_25 import V2025_11_25

V2026_07_28 = V2025_11_25.revise(
    "2026-07-28",
    adds={
        "requests": {"server/discover", "subscriptions/listen"},
        "announcements": {"notifications/subscriptions/acknowledged"},
        "capabilities": {"extensions": {"*"}},
        "cacheable": {
            "server/discover",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
        },
        "error_codes": {
            "resource_not_found": -32602,
            "header_mismatch": -32020,
            "client_capability_missing": -32021,
            "unsupported_protocol_version": -32022,
            # The number of older revisions must not be sent under this one.
            "url_elicitation_required": -32603,
            # Those between -32019 and -32000 are legacy ground (ERR-01).
            "execution_error": -32603,
            "transport_error": -32603,
        },
        "http_statuses": {
            "parse_error": 400,
            "invalid_request": 400,
            "invalid_params": 400,
            "resource_not_found": 400,
            "header_mismatch": 400,
            "client_capability_missing": 400,
            "unsupported_protocol_version": 400,
            "method_not_found": 404,
        },
        # Legacy ground, and what belongs to the specification (ERR-01 to ERR-03).
        "reserved_codes": range(-32099, -31999),
        "features": {
            Feature.RESULT_TYPES,
            Feature.MIRRORED_HEADERS,
            Feature.INPUT_ROUNDS,
            Feature.LISTEN_STREAMS,
            Feature.DISCONNECT_CANCELS,
        },
    },
    drops={
        "requests": {
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
        },
        "notifications": {
            "notifications/initialized",
            "notifications/progress",
            "notifications/roots/list_changed",
        },
        "announcements": {"notifications/elicitation/complete"},
        "questions": {"ping"},
        "fields": {"tool": {"execution"}, "elicitation/create": {"elicitationId"}},
        "features": {Feature.PRIMING_EVENTS},
    },
    opening=Statefulness.STATELESS,
    deprecated=frozenset({"roots/list", "sampling/createMessage", "notifications/message"}),
    input_request_methods=frozenset({"tools/call", "prompts/get", "resources/read"}),
    structured=Structured.ANYTHING,
)
