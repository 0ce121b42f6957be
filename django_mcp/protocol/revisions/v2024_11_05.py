"""2024-11-05: the first revision, from which all others are derived."""

from django_mcp.protocol.revisions.base import Feature, Revision, Statefulness, Structured

V2024_11_05 = Revision(
    version="2024-11-05",
    statefulness=Statefulness.SESSION,
    requests=frozenset(
        {
            "initialize",
            "ping",
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
        }
    ),
    notifications=frozenset(
        {
            "notifications/initialized",
            "notifications/cancelled",
            "notifications/progress",
            "notifications/roots/list_changed",
        }
    ),
    server_notifications=frozenset(
        {
            "notifications/cancelled",
            "notifications/progress",
            "notifications/message",
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
        }
    ),
    server_requests=frozenset({"ping", "sampling/createMessage", "roots/list"}),
    capabilities={
        "experimental": frozenset({"*"}),
        "logging": frozenset(),
        "prompts": frozenset({"listChanged"}),
        "resources": frozenset({"listChanged", "subscribe"}),
        "tools": frozenset({"listChanged"}),
    },
    fields={
        "implementation": frozenset({"name", "version"}),
        "tool": frozenset({"name", "description", "inputSchema"}),
        "resource": frozenset({"uri", "name", "description", "mimeType", "size", "annotations"}),
        "resource_template": frozenset(
            {"uriTemplate", "name", "description", "mimeType", "annotations"}
        ),
        "prompt": frozenset({"name", "description", "arguments"}),
        "argument": frozenset({"name", "description", "required"}),
        "annotations": frozenset({"audience", "priority"}),
        "contents": frozenset({"uri", "mimeType", "text", "blob"}),
        "text_content": frozenset({"type", "text", "annotations"}),
        "image_content": frozenset({"type", "data", "mimeType", "annotations"}),
        "resource_content": frozenset({"type", "resource", "annotations"}),
        "tools/call": frozenset({"content", "isError", "_meta"}),
        "progress": frozenset({"progressToken", "progress", "total"}),
        "elicitation/create": frozenset(),
        "sampling/createMessage": frozenset(
            {
                "messages",
                "modelPreferences",
                "systemPrompt",
                "includeContext",
                "temperature",
                "maxTokens",
                "stopSequences",
                "metadata",
                "_meta",
            }
        ),
    },
    blocks=frozenset({"text", "image", "resource"}),
    structured=Structured.NOTHING,
    cacheable=frozenset(),
    error_codes={
        "parse_error": -32700,
        "invalid_request": -32600,
        "method_not_found": -32601,
        "invalid_params": -32602,
        "internal_error": -32603,
        "cancelled": -32603,
        "resource_not_found": -32002,
        "execution_error": -32000,
        "transport_error": -32000,
        # Revisions with sessions define no codes for the following reasons.
        "header_mismatch": -32600,
        "client_capability_missing": -32600,
        "unsupported_protocol_version": -32602,
        "url_elicitation_required": -32600,
    },
    http_statuses={"parse_error": 400},
    # In a later revision it requires URL elicitation and has no other meaning (ELIC-20).
    reserved_codes=frozenset({-32042}),
    features=frozenset({Feature.UNDECLARED_COMPLETION}),
)
