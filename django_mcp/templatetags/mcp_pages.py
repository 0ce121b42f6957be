"""Of pages for users and admins: ``{% mcp_page as page %}``, ``{{ name|mcp_breakable }}``."""

from __future__ import annotations

from django import template
from django.template import Context

from django_mcp.runtime import pages
from django_mcp.runtime.pages import Page
from django_mcp.runtime.read_only_admin import breakable

register = template.Library()
# Lines break after the dots and underscores of a name only.
register.filter("mcp_breakable", breakable)


@register.simple_tag(takes_context=True)
def mcp_page(context: Context) -> Page:
    """Return the name of the site, the links among its pages for users, and who looks at them."""
    # No view of Django renders the page at an endpoint: its context has the data.
    given: Page | None = context.get("page")
    return given or pages.page(getattr(context, "request", None))
