"""A second server of the site, at /conformance, with its own list of authenticators."""

from django_mcp import Server

conformance = Server(
    "conformance",
    title="Conformance",
    description="What the official conformance suite wants to find on a server.",
    # The suite sends no credentials.
    authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"],
    # Scenarios of the official suite send input responses without the request state.
    requires_request_state=False,
    capabilities={
        "extensions": {
            "io.modelcontextprotocol/ui": {},
            "com.example/conformance": {
                "nested": {"enabled": True, "limit": 3},
                "values": [True, "b", 4],
            },
            "com.example/empty": {},
        }
    },
)
