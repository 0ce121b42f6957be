"""The view of a tool with an approval: the call, and the link to the page of the decision."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_mcp.contrib.approvals.answers import TEMPLATE
from django_mcp.ui import template_view

approval_view = template_view(
    fragment=TEMPLATE,
    uri="ui://approvals/call",
    title=_("Approval"),
    prefers_border=True,
)
