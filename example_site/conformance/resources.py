"""The suite's resources."""

from django_mcp import Response
from example_site.conformance.samples import PNG
from example_site.conformance.server import conformance


# First in the list: the suite reads the first resource to look at its cache hints.
@conformance.resource("test://static-text", title="Static text", mime_type="text/plain", order=-1)
def static_text() -> str:
    """A text which never changes."""
    return "This is the content of the static text resource."


@conformance.resource("test://static-binary", title="Static image", mime_type="image/png")
def static_binary() -> bytes:
    """An image which never changes."""
    return PNG


@conformance.resource("test://watched-resource", title="Watched", mime_type="text/plain")
def watched_resource() -> str:
    """A text of whose changes a client may want to hear."""
    return "This is the content of the watched resource."


@conformance.resource("test://example-resource", title="Example", mime_type="text/plain")
def example_resource() -> str:
    """The resource which a prompt is given the address of."""
    return "This is the content of the example resource."


@conformance.resource("test://template/{id}/data", title="Data", mime_type="application/json")
def template_data(id: str) -> Response:
    """Data about whatever the id names."""
    return Response.resource().json({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
