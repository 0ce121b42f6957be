"""Approvals as an extension: the option ``approval`` of tools, and the step that holds calls."""

from __future__ import annotations

from typing import Any

from django_mcp.contrib.approvals import holding, status_tool
from django_mcp.contrib.approvals.models import HOLDER
from django_mcp.contrib.approvals.models import Approval as Row
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import Approval
from django_mcp.extensions import Extension, Option, Step
from django_mcp.tasks import execution


def read(value: Any, where: str) -> Approval:
    approval = value if isinstance(value, Approval) else Approval(value)
    permission = approval.permission
    is_codename = isinstance(permission, str) and "." in permission
    if is_codename or callable(permission):
        return approval
    raise ConfigurationError(
        f'The approval of {where} is {permission!r}: write "app_label.codename", or a function '
        "that takes the arguments and the Frame"
    )


def prune() -> str:
    return f"Deleted {Row.objects.all().prune()} approvals."


APPROVALS = Extension(
    name=HOLDER,
    options=[
        Option(
            name="approval",
            read=read,
            only_on_server="the session may be over when its call is approved",
            answers_with_text=True,
        )
    ],
    before_handler=[Step(holding.hold, decides=True)],
    add_to=status_tool.add,
    prune=prune,
)
execution.GRANTS[HOLDER] = holding.grant
