"""Django's exceptions that are expected failures, and their answers to callers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import (
    NON_FIELD_ERRORS,
    ObjectDoesNotExist,
    PermissionDenied,
    ValidationError,
)
from django.db import IntegrityError
from django.http import Http404

from django_mcp.core.server.failures import Failure

CONFLICT = "The change conflicts with other data of the site."
MAX_DEPTH = 8
"""Levels of nested validation errors."""
NON_FIELD = ("non_field_errors", "detail", "__all__")
"""Keys of messages that concern no single field."""


def describe_validation_error(error: ValidationError) -> str:
    """Return one clause for each message, with its field if it has one."""
    if not hasattr(error, "error_dict"):
        return "; ".join(error.messages)
    return "; ".join(
        str(message) if name == NON_FIELD_ERRORS else f"{name}: {message}"
        for name, messages in error.message_dict.items()
        for message in messages
    )


def detail_lines(details: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield each message in the details of an error of REST framework, with its field's path.

    They are nested as the data of a serializer: mappings by field, lists by position.
    """
    if isinstance(details, Mapping) and depth < MAX_DEPTH:
        for key, inner in details.items():
            is_general = key in NON_FIELD
            yield from detail_lines(inner, path if is_general else _joined(path, key), depth + 1)
    elif isinstance(details, list) and depth < MAX_DEPTH:
        for index, inner in enumerate(details):
            # Of a list of objects, the place matters; of messages it does not.
            is_message = not isinstance(inner, Mapping | list)
            inner_path = path if is_message else _joined(path, index)
            yield from detail_lines(inner, inner_path, depth + 1)
    elif isinstance(details, str | int | float) and details != "":
        yield f"{path}: {details}" if path else str(details)


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _details(error: Any) -> str:
    return "; ".join(detail_lines(error.detail))


FAILURES: Mapping[type[Exception] | str, Failure] = {
    Http404: Failure("not_found"),
    ObjectDoesNotExist: Failure("not_found"),
    PermissionDenied: Failure("permission_denied"),
    ValidationError: Failure("invalid", describe_validation_error),
    # Its own message has the values of other rows.
    IntegrityError: Failure("failed", CONFLICT),
    "rest_framework.exceptions.ValidationError": Failure("invalid", _details),
    "rest_framework.exceptions.ParseError": Failure("invalid", _details),
    "rest_framework.exceptions.Throttled": Failure("failed", _details),
    "rest_framework.exceptions.NotFound": Failure("not_found"),
    "rest_framework.exceptions.PermissionDenied": Failure("permission_denied"),
    "rest_framework.exceptions.NotAuthenticated": Failure("permission_denied"),
    "rest_framework.exceptions.AuthenticationFailed": Failure("permission_denied"),
}
"""The names are from Django REST framework, which may not be installed."""
