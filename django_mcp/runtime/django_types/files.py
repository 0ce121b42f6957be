"""Values of a FileField in results: one absolute URL everywhere."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models.fields.files import FieldFile

from django_mcp import conf
from django_mcp.auth.resource import request_origin
from django_mcp.core.frame.client.base import current_frame
from django_mcp.core.frame.transport import HttpTransport


def url_of(file: FieldFile) -> str | None:
    """Return the URL of a file, or its name where the storage has no URLs; None without a file."""
    if not file:
        return None
    try:
        return _absolute(str(file.url))
    except (NotImplementedError, ValueError, ImproperlyConfigured):
        return str(file.name)


def url_of_column(field: models.FileField, name: Any) -> str | None:
    """Return the same for the name of a file, as it is in the column of a field."""
    instance: Any = None  # A storage needs none for a URL.
    return url_of(field.attr_class(instance, field, name)) if name else None


def _absolute(url: str) -> str:
    """Return a URL with the host of the site; unchanged where nothing says which that is."""
    base = None if urlsplit(url).scheme else _site_url()
    return url if base is None else urljoin(f"{base}/", url)


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
