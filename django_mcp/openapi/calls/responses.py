"""Responses of views as results of tools, and status codes as errors that a model can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from django.http import HttpRequest, HttpResponseBase

from django_mcp.core.components.responses import Response
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import AuthenticationRequired, ToolError
from django_mcp.forms.fields import tool_error
from django_mcp.runtime import private
from django_mcp.runtime.django_types.exceptions import detail_lines

MAX_BYTES = 1_000_000
"""The largest response. A larger one is an error: the caller can filter or paginate."""

SUMMARIES: Mapping[int, str] = {
    400: "The request is invalid.",
    403: "Permission denied.",
    404: "Not found.",
    405: "The view does not support this method.",
    406: "The view cannot respond with JSON.",
    409: "The request conflicts with the current state.",
    410: "The object no longer exists.",
    412: "The object has changed since it was read.",
    413: "The request is too large.",
    415: "The view does not accept this media type.",
    422: "The request is invalid.",
    423: "The object is locked.",
    429: "Too many requests.",
}
"""The meaning of a status for a model. Details of the view follow."""

DENIED = (401, 403)


def read(
    response: HttpResponseBase,
    frame: Frame,
    request: HttpRequest,
    *,
    max_bytes: int = MAX_BYTES,
    arguments: Mapping[str, Any] | None = None,
) -> Any:
    """Return the result of a tool for a response.

    Raises ToolError for a status that the caller can act on, AuthenticationRequired where an
    anonymous caller is denied, and RuntimeError for a failure of the view.
    """
    status = response.status_code
    if status >= 500:
        raise RuntimeError(f"The view responded with status {status}")
    if 200 <= status < 300 and is_download(response):
        return download(response, request)
    content = content_of(response, max_bytes)
    if 200 <= status < 300:
        return result(response, content)
    if status in DENIED and is_anonymous(frame):
        raise AuthenticationRequired
    if status < 400:
        raise ToolError(f"The view redirects (status {status}), and tools follow no redirects.")
    summary = SUMMARIES.get(status, f"The request failed with status {status}.")
    if status == 401:
        summary = SUMMARIES[403]
    if wait := response.headers.get("Retry-After"):
        summary = f"{summary} Try again in {wait[:20]} seconds."
    details = None  # A page in HTML is for people.
    if is_json(media_type_of(response)):
        with suppress(ValueError):
            details = json.loads(content)
    lines = located_lines(details, arguments or {}) or detail_lines(details)
    raise tool_error(summary, lines)


def located_lines(details: Any, arguments: Mapping[str, Any]) -> list[str]:
    """Return a line for each error of pydantic, at its argument; none for other details.

    The place of such an error begins with the part of the request, and with the parameter of the
    view that takes this part: neither is known to the caller.
    """
    errors = details.get("detail") if isinstance(details, Mapping) else None
    if not isinstance(errors, list):
        return []
    for error in errors:
        if not (isinstance(error, Mapping) and error.get("loc") and "msg" in error):
            return []
    return [f"{_argument_of(each['loc'], arguments)}: {each['msg']}" for each in errors]


def _argument_of(place: Any, arguments: Mapping[str, Any]) -> str:
    steps = [str(step) for step in (place if isinstance(place, list) else [place])]
    while len(steps) > 1 and steps[0] not in arguments and (steps[0] in PARTS or len(steps) > 2):
        del steps[0]
    if len(steps) > 1 and steps[0] not in arguments and steps[1] in arguments:
        del steps[0]
    return ".".join(steps)


PARTS = frozenset(
    {"body", "query", "path", "header", "cookie", "form", "file"}
    | {"parsed_body", "parsed_query", "parsed_path", "parsed_headers", "parsed_cookies"}
)
"""How Django Ninja and django-modern-rest name the parts of a request."""


def is_anonymous(frame: Frame) -> bool:
    is_known = getattr(frame.user, "is_authenticated", False)
    return not is_known and (frame.auth is None or frame.auth.is_anonymous)


def content_of(response: Any, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of a response; raises ToolError for too many."""
    if not getattr(response, "streaming", False):
        return bounded([response.content], max_bytes)
    if response.is_async:
        raise ToolError("The view streams its response without end, which a tool cannot read.")
    try:
        return bounded(response, max_bytes)
    finally:
        private.close_resources(response)


class TooLarge(ToolError):
    """A response has too many bytes."""


def bounded(parts: Iterable[bytes], max_bytes: int) -> bytes:
    content = []
    size = 0
    for part in parts:
        content.append(part)
        size += len(part)
        if size > max_bytes:
            raise TooLarge(
                f"The response has more than {max_bytes} bytes: ask for less, by a filter or by "
                "smaller pages."
            )
    return b"".join(content)


def media_type_of(response: HttpResponseBase) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def is_download(response: HttpResponseBase) -> bool:
    """Whether a response is a file, and neither data nor a text or an image to look at."""
    disposition = response.headers.get("Content-Disposition", "").strip().lower()
    media_type = media_type_of(response)
    is_shown = is_json(media_type) or media_type.startswith(("text/", "image/"))
    return disposition.startswith("attachment") or not (is_shown or not media_type)


def download(response: HttpResponseBase, request: HttpRequest) -> Any:
    """Return a file as a resource at the URL of the view; a large one is a link to it."""
    url = f"{request.scheme}://{request.headers['host']}{request.get_full_path()}"
    media_type = media_type_of(response)
    try:
        content = content_of(response)
    except TooLarge:
        name = getattr(response, "filename", "") or request.path.rstrip("/").rpartition("/")[2]
        return Response.tool().resource_link(url, name, mime_type=media_type)
    if not content:
        return None if response.status_code == 200 else "Done."
    if media_type.startswith("text/") or is_json(media_type):
        text = text_of(response, content)
        return Response.tool().embedded_resource(url, text=text, mime_type=media_type)
    return Response.tool().embedded_resource(url, blob=content, mime_type=media_type)


def result(response: HttpResponseBase, content: bytes) -> Any:
    """Return the content of a response that is shown."""
    if not content:
        return None if response.status_code == 200 else "Done."
    media_type = media_type_of(response)
    if is_json(media_type):
        return json.loads(content)
    if media_type.startswith("image/"):
        return Response.tool().image(content, media_type)
    return text_of(response, content)


def text_of(response: HttpResponseBase, content: bytes) -> str:
    """Return content as text, by the charset of its response."""
    try:
        return content.decode(response.charset, errors="replace")
    except LookupError:  # Python knows no such charset.
        return content.decode(errors="replace")


def is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")
