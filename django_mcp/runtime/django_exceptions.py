"""Which exceptions of Django are expected failures, and what the caller receives for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import IntegrityError
from django.http import Http404

from django_mcp.runtime.django_values import describe_validation_error
from django_mcp.server.failures import Failure

CONFLICT = "The change conflicts with other data of the site."


def _details(error: Any) -> str:
    """Return the messages of a serializer's error, each with its field."""
    detail = error.detail
    if not isinstance(detail, Mapping):
        return "; ".join(map(str, detail))
    return "; ".join(
        f"{name}: {' '.join(map(str, messages)) if isinstance(messages, list) else messages}"
        for name, messages in detail.items()
    )


FAILURES: Mapping[type[Exception] | str, Failure] = {
    Http404: Failure("not_found"),
    ObjectDoesNotExist: Failure("not_found"),
    PermissionDenied: Failure("permission_denied"),
    ValidationError: Failure("invalid", describe_validation_error),
    # Its own message has the values of other rows.
    IntegrityError: Failure("failed", CONFLICT),
    "rest_framework.exceptions.ValidationError": Failure("invalid", _details),
    "rest_framework.exceptions.NotFound": Failure("not_found"),
    "rest_framework.exceptions.PermissionDenied": Failure("permission_denied"),
    "rest_framework.exceptions.NotAuthenticated": Failure("permission_denied"),
}
"""The names are those of Django REST framework, which may not be installed."""
