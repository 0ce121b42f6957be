"""2024-11-05: the first revision. All others are derived from it."""

from django_mcp.core.protocol.revisions.base import (
    Feature,
    Revision,
    Statefulness,
    Structured,
    names,
)

V2024_11_05 = Revision(
    version="2024-11-05",
    statefulness=Statefulness.SESSION,
    requests=names(
        "initialize ping tools/list tools/call resources/list resources/templates/list "
        "resources/read resources/subscribe resources/unsubscribe prompts/list prompts/get "
        "completion/complete logging/setLevel"
    ),
    notifications=names(
        "notifications/initialized notifications/cancelled notifications/progress "
        "notifications/roots/list_changed"
    ),
    server_notifications=names(
        "notifications/cancelled notifications/progress notifications/message "
        "notifications/tools/list_changed notifications/prompts/list_changed "
        "notifications/resources/list_changed notifications/resources/updated"
    ),
    server_requests=names("ping sampling/createMessage roots/list"),
    capabilities={
        # Defined by SEP-2133 long after this revision, for its initialize as well.
        "extensions": names("*"),
        "experimental": names("*"),
        "logging": names(""),
        "prompts": names("listChanged"),
        "resources": names("listChanged subscribe"),
        "tools": names("listChanged"),
    },
    fields={
        "implementation": names("name version"),
        "tool": names("name description inputSchema"),
        "resource": names("uri name description mimeType size annotations"),
        "resource_template": names("uriTemplate name description mimeType annotations"),
        "prompt": names("name description arguments"),
        "argument": names("name description required"),
        "annotations": names("audience priority"),
        "contents": names("uri mimeType text blob"),
        "text_content": names("type text annotations"),
        "image_content": names("type data mimeType annotations"),
        "resource_content": names("type resource annotations"),
        "tools/call": names("content isError _meta"),
        "progress": names("progressToken progress total"),
        # This revision has no elicitation.
        "elicitation/create": names(""),
        "sampling/createMessage": names(
            "messages modelPreferences systemPrompt includeContext temperature maxTokens "
            "stopSequences metadata _meta"
        ),
    },
    blocks=names("text image resource"),
    sampling_blocks=names("text image"),
    structured=Structured.NOTHING,
    error_codes={
        "parse_error": -32700,
        "invalid_request": -32600,
        "method_not_found": -32601,
        "invalid_params": -32602,
        "internal_error": -32603,
        "cancelled": -32603,
        "server_busy": -32603,
        "too_many_requests": -32600,
        "resource_not_found": -32002,
        "execution_error": -32000,
        "transport_error": -32000,
        # Revisions with sessions define no codes for the following reasons.
        "header_mismatch": -32600,
        "missing_required_client_capability": -32600,
        "unsupported_protocol_version": -32602,
        "url_elicitation_required": -32600,
        "authentication_required": -32600,
        "insufficient_scope": -32600,
        "unknown_group": -32602,
    },
    http_statuses={
        "parse_error": 400,
        "unknown_group": 400,
        "authentication_required": 401,
        "insufficient_scope": 403,
        "server_busy": 503,
        "too_many_requests": 429,
    },
    # A later revision has this code for required URL elicitation only (ELIC-20).
    reserved_codes=frozenset({-32042}),
    features=frozenset({Feature.UNDECLARED_COMPLETION}),
)
