"""The suite's tools which need nothing of the client."""

import asyncio
from typing import Annotated, Any

from django_mcp import Frame, Header, Response, ToolError
from example_site.conformance.samples import PNG, WAV
from example_site.conformance.server import conformance

PAUSE = 0.05  # The suite tells one event from the next by the time between them.

JSON_SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {
        "properties": {"contactMethod": {"const": "phone"}},
        "required": ["contactMethod"],
    },
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


# First in the list: the suite calls the first tool, without arguments, to try headers out.
@conformance.tool(order=-1)
def test_simple_text() -> str:
    """Answers with a text."""
    return "This is a simple text response for testing."


@conformance.tool
def test_image_content() -> Response:
    """Answers with an image."""
    return Response.tool().image(PNG, "image/png")


@conformance.tool
def test_audio_content() -> Response:
    """Answers with a sound."""
    return Response.tool().audio(WAV, "audio/wav")


@conformance.tool
def test_embedded_resource() -> Response:
    """Answers with a resource and its contents."""
    return Response.tool().embedded_resource(
        "test://embedded-resource",
        text="This is an embedded resource content.",
        mime_type="text/plain",
    )


@conformance.tool
def test_multiple_content_types() -> Response:
    """Answers with a text, an image and a resource."""
    return (
        Response.tool()
        .text("Multiple content types test:")
        .image(PNG, "image/png")
        .embedded_resource(
            "test://mixed-content-resource",
            text='{"test":"data","value":123}',
            mime_type="application/json",
        )
    )


@conformance.tool
def test_error_handling() -> str:
    """Fails, and says so to the model."""
    raise ToolError("This tool intentionally returns an error for testing")


@conformance.tool
async def test_tool_with_logging(frame: Frame) -> str:
    """Logs to the client while it runs."""
    await frame.client.alog("info", "Tool execution started")
    await asyncio.sleep(PAUSE)
    await frame.client.alog("info", "Tool processing data")
    await asyncio.sleep(PAUSE)
    await frame.client.alog("info", "Tool execution completed")
    return "Logged three messages."


@conformance.tool
async def test_tool_with_progress(frame: Frame) -> str:
    """Reports progress while it runs."""
    for done in (0, 50, 100):
        await frame.client.aprogress(done, 100, f"Completed {done} of 100")
        await asyncio.sleep(PAUSE)
    return "Reported progress three times."


@conformance.tool
def test_logging_tool(frame: Frame) -> str:
    """Logs at four levels, of which the client is sent those that it asked for."""
    for level in ("debug", "info", "warning", "error"):
        frame.client.log(level, f"A message of level {level}")
    return "Logged at every level."


@conformance.tool
def test_x_mcp_header(region: Annotated[str, Header("Region")]) -> str:
    """Takes an argument which HTTP clients repeat in the header Mcp-Param-Region."""
    return f"The region is {region}."


@conformance.tool(input_schema=JSON_SCHEMA_2020_12)
def json_schema_2020_12_tool(params: dict[str, Any]) -> dict[str, Any]:
    """Takes what a JSON Schema with references and conditions describes."""
    return params
