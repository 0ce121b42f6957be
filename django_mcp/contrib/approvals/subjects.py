"""The object that a call is about, with its label and a link, for readers who may see it."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from django.contrib.admin.utils import quote
from django.contrib.auth import get_permission_codename
from django.db.models import Model

from django_mcp import registry
from django_mcp.contrib.approvals.models import Approval
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.log import log_repeated
from django_mcp.runtime.pages import page_url


class Subject(NamedTuple):
    """An object of the site."""

    kind: str
    """The name of its model."""
    label: str
    url: str
    """Its page in the admin, or its own; "" without one."""


def of(row: Approval, reader: Any) -> Subject | None:
    """Return the object that ``subject`` of the tool names; None for who may not view it."""
    subject = _named(row)
    if not isinstance(subject, Model):
        return None
    options = subject._meta
    permissions = [get_permission_codename(action, options) for action in ("view", "change")]
    if not any(reader.has_perm(f"{options.app_label}.{name}") for name in permissions):
        return None
    return Subject(str(options.verbose_name), str(subject), _url(subject, reader))


def _named(row: Approval) -> Any:
    try:
        tool = registry.get(row.server).components.find(ToolComponent.kind, row.tool)
        approval = None if tool is None else tool.options.get("approval")
        if approval is None or approval.subject is None:
            return None
        return approval.subject(row.arguments)
    except Exception as error:
        # Its message may repeat an argument.
        text = f"The subject of a call of {row.tool} failed: {type(error).__name__}"
        log_repeated(logging.WARNING, text)
        return None


def _url(subject: Model, reader: Any) -> str:
    if reader.is_staff:
        name = f"admin:{subject._meta.app_label}_{subject._meta.model_name}_change"
        url = page_url(name, object_id=quote(str(subject.pk)))
        if url is not None:
            return url
    own = getattr(subject, "get_absolute_url", None)
    return str(own()) if own is not None else ""
