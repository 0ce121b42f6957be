"""Tools of the conformance suite that send no input requests."""

import asyncio
import json
from typing import Annotated, Any

from pydantic import BaseModel

from django_mcp import Frame, Header, Response, ToolError
from example_site.conformance.samples import PNG, WAV
from example_site.conformance.server import conformance

PAUSE = 0.05  # The suite checks the time between events.

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


# The first in the list: the suite calls the first tool without arguments to test headers.
@conformance.tool(order=-1)
def test_simple_text() -> str:
    """Returns a text."""
    return "This is a simple text response for testing."


@conformance.tool
def test_image_content() -> Response:
    """Returns an image."""
    return Response.tool().image(PNG, "image/png")


@conformance.tool
def test_audio_content() -> Response:
    """Returns a sound."""
    return Response.tool().audio(WAV, "audio/wav")


@conformance.tool
def test_embedded_resource() -> Response:
    """Returns an embedded resource."""
    return Response.tool().embedded_resource(
        "test://embedded-resource",
        text="This is an embedded resource content.",
        mime_type="text/plain",
    )


@conformance.tool
def test_multiple_content_types() -> Response:
    """Returns a text, an image and a resource."""
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
    """Returns a tool error."""
    raise ToolError("This tool intentionally returns an error for testing")


@conformance.tool
async def test_tool_with_logging(frame: Frame) -> str:
    """Sends log messages while it runs."""
    await frame.client.alog("info", "Tool execution started")
    await asyncio.sleep(PAUSE)
    await frame.client.alog("info", "Tool processing data")
    await asyncio.sleep(PAUSE)
    await frame.client.alog("info", "Tool execution completed")
    return "Logged three messages."


@conformance.tool
async def test_tool_with_progress(frame: Frame) -> str:
    """Sends progress notifications while it runs."""
    for done in (0, 50, 100):
        await frame.client.aprogress(done, 100, f"Completed {done} of 100")
        await asyncio.sleep(PAUSE)
    return "Reported progress three times."


@conformance.tool
def test_logging_tool(frame: Frame) -> str:
    """Logs at four levels; the client receives those that it requested."""
    for level in ("debug", "info", "warning", "error"):
        frame.client.log(level, f"A message of level {level}")
    return "Logged at every level."


@conformance.tool
def test_x_mcp_header(region: Annotated[str, Header("Region")]) -> str:
    """Takes an argument that HTTP clients repeat in the header Mcp-Param-Region."""
    return f"The region is {region}."


@conformance.tool(input_schema=JSON_SCHEMA_2020_12)
def json_schema_2020_12_tool(params: dict[str, Any]) -> dict[str, Any]:
    """Takes arguments described by a JSON Schema with references and conditions."""
    return params


class Forecast(BaseModel):
    """The weather of one hour."""

    hour: str
    temp: int
    conditions: str


@conformance.tool
def sep_2106_array_output_tool() -> list[Forecast]:
    """Returns an array as structured content."""
    return [
        Forecast(hour="09:00", temp=68, conditions="sunny"),
        Forecast(hour="10:00", temp=72, conditions="partly cloudy"),
    ]


@conformance.tool(output_schema={"type": "number"})
def sep_2106_primitive_output_tool() -> int:
    """Returns a number as structured content."""
    return 42


@conformance.tool
def test_legacy_extension_capabilities(frame: Frame) -> str:
    """Returns the extensions that the client declares."""
    return json.dumps({"extensions": frame.client.capabilities.get("extensions", {})})
