"""Prompts of the conformance suite that send no input requests."""

from typing import Annotated

from pydantic import Field

from django_mcp import Response
from django_mcp.core.protocol.content import EmbeddedResource, ImageContent
from example_site.conformance.samples import PNG
from example_site.conformance.server import conformance


def complete_arg1(typed: str) -> list[str]:
    """The values that start with the given text."""
    values = ["testValue1", "testing", "paris", "park", "party"]
    return [value for value in values if value.startswith(typed)]


@conformance.prompt
def test_simple_prompt() -> str:
    """Returns one message without arguments."""
    return "This is a simple prompt for testing."


@conformance.prompt(complete={"arg1": complete_arg1})
def test_prompt_with_arguments(
    arg1: Annotated[str, Field(description="First test argument")],
    arg2: Annotated[str, Field(description="Second test argument")],
) -> str:
    """Returns one message with both arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@conformance.prompt
def test_prompt_with_embedded_resource(
    resourceUri: Annotated[str, Field(description="URI of the resource to embed")],
) -> Response:
    """Returns a resource and an instruction."""
    embedded = EmbeddedResource(
        resourceUri, text="Embedded resource content for testing.", mime_type="text/plain"
    )
    return Response.prompt().user(embedded).user("Please process the embedded resource above.")


@conformance.prompt
def test_prompt_with_image() -> Response:
    """Returns an image and an instruction."""
    image = ImageContent(PNG, "image/png")
    return Response.prompt().user(image).user("Please analyze the image above.")
