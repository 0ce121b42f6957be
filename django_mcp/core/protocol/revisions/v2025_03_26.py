"""2025-03-26: streamable HTTP, batches, tool annotations, audio, completion as a capability."""

from django_mcp.core.protocol.revisions.base import Feature
from django_mcp.core.protocol.revisions.v2024_11_05 import V2024_11_05

V2025_03_26 = V2024_11_05.revise(
    "2025-03-26",
    adds={
        "capabilities": {"completions": ""},
        "blocks": "audio",
        "sampling_blocks": "audio",
        "fields": {
            "tool": "annotations",
            "audio_content": "type data mimeType annotations",
            "progress": "message",
        },
        "features": {Feature.BATCHES},
    },
    drops={"features": {Feature.UNDECLARED_COMPLETION}},
)
