"""Resources of the conformance suite."""

from django_mcp import Response
from example_site.conformance.samples import PNG
from example_site.conformance.server import conformance


# The first in the list: the suite reads the cache hints of the first resource.
@conformance.resource("test://static-text", title="Static text", mime_type="text/plain", order=-1)
def static_text() -> str:
    """A static text."""
    return "This is the content of the static text resource."


@conformance.resource("test://static-binary", title="Static image", mime_type="image/png")
def static_binary() -> bytes:
    """A static image."""
    return PNG


@conformance.resource("test://watched-resource", title="Watched", mime_type="text/plain")
def watched_resource() -> str:
    """A text that clients can subscribe to."""
    return "This is the content of the watched resource."


@conformance.resource("test://example-resource", title="Example", mime_type="text/plain")
def example_resource() -> str:
    """The resource that a prompt receives the URI of."""
    return "This is the content of the example resource."


@conformance.resource("test://template/{id}/data", title="Data", mime_type="application/json")
def template_data(id: str) -> Response:
    """Data of the object with the given id."""
    return Response.resource().json({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
