"""Values of Django's own types in results, and the errors for unsupported ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from io import BytesIO
from typing import Any
from urllib.parse import urljoin, urlsplit

from asgiref.sync import sync_to_async
from django.core.exceptions import (
    ImproperlyConfigured,
    SynchronousOnlyOperation,
    ValidationError,
)
from django.core.files.base import File
from django.core.paginator import Page
from django.core.signals import setting_changed
from django.db.models import FileField, Model, QuerySet
from django.db.models.fields.files import FieldFile
from django.db.models.manager import BaseManager
from django.db.models.query import RawQuerySet
from django.forms import BaseForm
from django.forms.formsets import BaseFormSet
from django.forms.utils import ErrorDict, ErrorList
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.functional import LazyObject
from django.utils.module_loading import import_string

from django_mcp import conf
from django_mcp.auth.resource import request_origin
from django_mcp.core.components import serializers
from django_mcp.core.components.base import UnserializableResult
from django_mcp.core.components.responses import ContentResponse
from django_mcp.core.components.serializers import (
    Row,
    RowSerializer,
    Serializer,
    Table,
    Unsupported,
)
from django_mcp.core.frame.client.base import current_frame
from django_mcp.core.frame.transport import HttpTransport
from django_mcp.runtime import private

MAX_DEPTH = 20
"""Levels of a result that are searched for queries."""

TOOLSET = "declare a ModelToolset (django_mcp.toolsets)"


def messages_by_field(errors: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the messages of a form or of a ValidationError, as strings, by field."""
    return {str(name): [str(each) for each in listed] for name, listed in errors.items()}


def _validation_error(error: ValidationError) -> Any:
    has_fields = hasattr(error, "error_dict")
    return messages_by_field(error.message_dict) if has_fields else [str(e) for e in error.messages]


def file_url(file: FieldFile) -> str | None:
    """Return the absolute URL of a file, or its name without one; None without a file."""
    if not file:
        return None
    try:
        url = str(file.url)
        base = None if urlsplit(url).scheme else _site_url()
        # Unchanged where nothing says which host the site has.
        return url if base is None else urljoin(f"{base}/", url)
    except (NotImplementedError, ValueError, ImproperlyConfigured):
        return str(file.name)


def file_url_of_column(field: FileField, name: Any) -> str | None:
    """Return the same for the name of a file, as it is in the column of a field."""
    instance: Any = None  # A storage needs none for a URL.
    return file_url(field.attr_class(instance, field, name)) if name else None


def _site_url() -> str | None:
    """Return BASE_URL, else the origin that the request of the current call names.

    On a site with tenants, the request comes first: its host may belong to the tenant.
    """
    site = conf.get()
    frame = current_frame.get()
    transport = None if frame is None else frame.transport
    if not isinstance(transport, HttpTransport) or (site.base_url and not site.tenant):
        return site.base_url
    headers = [(name.encode("latin-1"), it.encode("latin-1")) for name, it in transport.req_headers]
    return request_origin({"headers": headers, "scheme": transport.scheme})


def _range(value: Any) -> dict[str, Any]:
    """Return the ends of a range of PostgreSQL, and whether they belong to it: ``[)``."""
    bounds = "empty"
    if not value.isempty:
        start = "[" if value.lower_inc else "("
        bounds = f"{start}]" if value.upper_inc else f"{start})"
    return {"lower": value.lower, "upper": value.upper, "bounds": bounds}


def _page(page: Page[Any]) -> dict[str, Any]:
    return {
        "results": page.object_list,
        "page": page.number,
        "pages": page.paginator.num_pages,
        "count": page.paginator.count,
    }


def _values(query: QuerySet[Any, Any]) -> list[Any]:
    if private.has_model_rows(query):
        raise UnserializableResult(Unsupported(_model_words).describe(query.model))
    return _evaluated(query)


def _evaluated(query: QuerySet[Any, Any]) -> list[Any]:
    try:
        return list(query)
    except SynchronousOnlyOperation as error:
        # Of an async handler: ``run_queries`` runs it elsewhere.
        raise UnserializableResult("A query cannot run in an event loop") from error


def _as_rows(query: Iterable[Any]) -> list[Any]:
    rows = _evaluated(query) if isinstance(query, QuerySet) else query
    return [serializers.deeply_converted(row, rows=True) for row in rows]


def _unwrapped(value: Any) -> Any:
    # The object itself is pickled.
    _, (wrapped,) = value.__reduce__()
    return wrapped


def _image(image: Any) -> ContentResponse:
    """Return the bytes of an image of Pillow, in its own format or as PNG."""
    data = BytesIO()
    form = image.format if image.format in IMAGE_FORMATS else "PNG"
    if form == "JPEG" and image.mode not in JPEG_MODES:
        form = "PNG"  # It keeps the alpha channel.
    if form == "PNG" and image.mode not in PNG_MODES:
        image = image.convert("RGB")
    image.save(data, form)
    name = f"image.{form.lower()}"
    return ContentResponse(data=data.getvalue(), mime_type=f"image/{form.lower()}", name=name)


IMAGE_FORMATS = ("GIF", "JPEG", "PNG", "WEBP")
"""Formats that models and clients read."""
JPEG_MODES = ("1", "L", "RGB", "CMYK")
PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")


def _model_words(model: type) -> str:
    name = model.__name__
    return (
        f"is a model instance, which has no JSON form. Choose its fields: return "
        f"{name}.objects.values(…), model_to_dict(…), a pydantic model or a serializer's .data, or "
        f"{TOOLSET}"
    )


def _words(text: str) -> Callable[[type], str]:
    return lambda kind: text


QUERYSET_WORDS = _words(
    f"has rows of an unknown form. Write list[dict], or a list of pydantic models, or {TOOLSET}"
)
RESPONSE_WORDS = _words(
    "is the response of a view. Return the data itself: the dict of a JsonResponse, the URL "
    "of a redirect, Response.template(…) for a rendered page, Response.file(…) for a file"
)
FORM_WORDS = _words("is a form. Return form.errors or form.cleaned_data")
ITERATOR_WORDS = _words("can be read once, and only here. Return a list: list(…)")
FILE_WORDS = _words(
    "is a file. Return Response.file(…), or its URL. To take a file, annotate UploadedFile of "
    "django.core.files.uploadedfile"
)
IMAGE_WORDS = _words("is an image. Return it by itself, or in Response.tool().file(…)")
REQUEST_WORDS = _words("is for views. Annotate Frame instead, which has the user")
MANAGER_WORDS = _words("is a manager. Return .values(…) of it, or a list of pydantic models")


def _all_rows(manager: Any) -> Any:
    return _as_rows(manager.all())


TABLE: Mapping[type | str, Serializer] = {
    Model: Unsupported(_model_words, as_rows=Row),
    QuerySet: RowSerializer(_values, _as_rows),
    RawQuerySet: Unsupported(QUERYSET_WORDS),
    BaseManager: Unsupported(MANAGER_WORDS, as_rows=_all_rows),
    Page: _page,
    ErrorDict: messages_by_field,
    ErrorList: lambda errors: [str(each) for each in errors],
    ValidationError: _validation_error,
    FieldFile: file_url,
    File: Unsupported(FILE_WORDS),
    "_io._IOBase": Unsupported(FILE_WORDS),
    "tempfile._TemporaryFileWrapper": Unsupported(FILE_WORDS),
    HttpResponseBase: Unsupported(RESPONSE_WORDS),
    HttpRequest: Unsupported(REQUEST_WORDS),
    BaseForm: Unsupported(FORM_WORDS),
    BaseFormSet: Unsupported(FORM_WORDS),
    LazyObject: _unwrapped,
    "psycopg.types.range.Range": _range,
    "psycopg2._range.Range": _range,
    "builtins.generator": Unsupported(ITERATOR_WORDS),
    "builtins.map": Unsupported(ITERATOR_WORDS),
    "builtins.filter": Unsupported(ITERATOR_WORDS),
    "builtins.zip": Unsupported(ITERATOR_WORDS),
    "builtins.async_generator": Unsupported(_words("cannot be awaited here. Return a list")),
    "builtins.coroutine": Unsupported(
        _words("was not awaited. Await it in an async def, which no decorator may hide")
    ),
    "PIL.Image.Image": Unsupported(IMAGE_WORDS, as_content=_image),
    "rest_framework.serializers.BaseSerializer": Unsupported(
        _words("is a serializer. Return its .data")
    ),
    "rest_framework.request.Request": Unsupported(REQUEST_WORDS),
}
"""Django's types; types that need no import here, or may not be installed, are names."""


@cache
def site_table() -> Table:
    """Return the entries of the setting SERIALIZERS; raises ImproperlyConfigured."""
    return {_imported(kind): _imported(made) for kind, made in conf.get().serializers.items()}


def _imported(path: str) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(
            f'DJANGO_MCP["SERIALIZERS"] names {path!r}, which cannot be imported: {error}'
        ) from error


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_MCP":
        site_table.cache_clear()
        serializers.clear_cache()


setting_changed.connect(_forget, dispatch_uid="django_mcp.runtime.django_types.values")


def max_file_size() -> int:
    """Return the largest file that a result of the site may contain."""
    return conf.get().max_result_size


def render(template_name: str, context: Mapping[str, Any]) -> str:
    """Return the text of a template of the site."""
    return render_to_string(template_name, dict(context))


async def run_queries(value: Any) -> bool:
    """Run the queries in the result of an async handler; return whether there were any.

    They run on the thread of their request, and keep their rows.
    """
    queries = [*_pending_queries(value, MAX_DEPTH)]
    if queries:
        await sync_to_async(_run_all)(queries)
    return bool(queries)


def _run_all(queries: list[QuerySet[Any, Any]]) -> None:
    for query in queries:
        len(query)  # It runs the query, which keeps its rows.


def _pending_queries(value: Any, depth: int) -> Iterator[QuerySet[Any, Any]]:
    if isinstance(value, QuerySet):
        if not private.is_evaluated(value):
            yield value
    elif depth and isinstance(value, Page):
        yield from _pending_queries(value.object_list, depth - 1)
    elif depth and isinstance(value, Mapping):
        for member in value.values():
            yield from _pending_queries(member, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from _pending_queries(item, depth - 1)
