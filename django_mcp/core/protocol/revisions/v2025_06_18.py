"""2025-06-18: structured content, titles, resource links, elicitation; batches are removed."""

from django_mcp.core.protocol.revisions.base import Feature, Structured
from django_mcp.core.protocol.revisions.v2025_03_26 import V2025_03_26

V2025_06_18 = V2025_03_26.revise(
    "2025-06-18",
    adds={
        "blocks": "resource_link",
        "server_requests": "elicitation/create",
        "fields": {
            "implementation": "title",
            "tool": "title outputSchema _meta",
            "resource": "title _meta",
            "resource_template": "title _meta",
            "prompt": "title _meta",
            "argument": "title",
            "annotations": "lastModified",
            "contents": "_meta",
            "text_content": "_meta",
            "image_content": "_meta",
            "audio_content": "_meta",
            "resource_content": "_meta",
            "resource_link_content": (
                "type uri name title description mimeType size annotations _meta"
            ),
            "tools/call": "structuredContent",
            "elicitation/create": "message requestedSchema _meta",
        },
        "features": {Feature.VERSION_HEADER, Feature.COMPLETION_CONTEXT},
    },
    drops={"features": {Feature.BATCHES}},
    structured=Structured.OBJECT,
)
