"""A server with a view from templates, for hosts in a browser."""

from __future__ import annotations

from collections import Counter

from pydantic import BaseModel

from django_mcp import Server, ToolError
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.ui import template_view


class Count(BaseModel):
    name: str
    count: int
    owner: str = "<img src=x onerror=alert(1)>"


def counters() -> Server:
    """Return a new server; TEMPLATES has to contain the ENGINE of ``counter_template``."""
    server = Server("counters", path="/counters", authenticators=[AnonymousAuthentication()])
    view = template_view(fragment="counters/_counter.html", title="Counter")
    counts: Counter[str] = Counter()

    @server.tool(ui=view, read_only=True)
    def show_counter(name: str) -> Count:
        """Show a counter."""
        return Count(name=name, count=counts[name])

    @server.tool(ui=view, app_only=True)
    def add(name: str, by: int = 1) -> Count:
        """Add to a counter."""
        if by < 0:
            raise ToolError("A counter cannot be reduced.")
        counts[name] += by
        return Count(name=name, count=counts[name])

    @server.tool(permission="auth.change_user", app_only=True, ui=view)
    def secret() -> str:
        """What nobody may call."""
        return "secret"

    return server
