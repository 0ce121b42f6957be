"""The tools that the user of a browser may use, as their programs are listed them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django_mcp import registry
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.challenges import AuthenticationFailed
from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.core.auth.base import TENANT_KEY, Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.dispatch import dispatcher, handle
from django_mcp.core.protocol.errors import Json, McpError
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.protocol.request_meta import OF_NO_CLIENT
from django_mcp.core.protocol.schema import parameters
from django_mcp.core.protocol.schema.examples import example_of
from django_mcp.core.protocol.schema.parameters import Parameter
from django_mcp.runtime.around import tenants
from django_mcp.transports import frames, site
from django_mcp.transports.http import django_middleware
from django_mcp.transports.http.exchange import HttpExchange
from django_mcp.transports.http.request import HttpError, django_request
from django_mcp.transports.loop_exchange import LoopExchange

WRAPPED = re.compile(r"(?<=[^\s:])\n(?=[^\W\d_])")
"""A break before a word, which begins neither a list nor an indented line."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool, as the page and the documents show it."""

    descriptor: Json
    """As clients receive it."""

    @property
    def name(self) -> str:
        return str(self.descriptor["name"])

    @property
    def title(self) -> str:
        return str(self.descriptor.get("title") or self.name)

    @property
    def description(self) -> str:
        return str(self.descriptor.get("description") or "")

    @property
    def paragraphs(self) -> str:
        """The description without the breaks within paragraphs that a docstring has."""
        return WRAPPED.sub(" ", self.description)

    @property
    def reads_only(self) -> bool:
        return bool(self._hints.get("readOnlyHint"))

    @property
    def may_destroy(self) -> bool:
        """Whether it may delete or overwrite data: unless it says that it does not."""
        return not self.reads_only and self._hints.get("destructiveHint") is not False

    @property
    def _hints(self) -> Json:
        hints: Json = self.descriptor.get("annotations") or {}
        return hints

    @property
    def parameters(self) -> list[Parameter]:
        return parameters.of_schema(self.descriptor["inputSchema"])

    @property
    def example(self) -> Any:
        """Arguments of a call."""
        return example_of(self.descriptor["inputSchema"])

    @property
    def example_json(self) -> str:
        return json.dumps(self.example, indent=2, ensure_ascii=False)

    def matches(self, words: Sequence[str]) -> bool:
        """Whether all words, in lower case, are in its name, title or description."""
        text = f"{self.name}\n{self.title}\n{self.description}".casefold()
        return all(word in text for word in words)


def has_site_users(request: HttpExchange) -> bool:
    """Whether a user of the site may be a caller of this server.

    Elsewhere, its authenticators decide who is one: partners with keys of their own, or the members
    of the organisation that the path names.
    """
    authenticators = request.authentication.authenticators
    may_log_in = any(getattr(each, "authenticates_site_users", False) for each in authenticators)
    return may_log_in and "<" not in request.server.path


async def caller_of(request: HttpExchange) -> Principal | None:
    """Return the user who is logged in to the site; None for anybody else.

    None as well for a user whom the middleware of the settings sends away.
    """
    if not has_site_users(request):
        return None
    if tenants.function() is not None:
        tenant = await tenants.aof_request(django_request(request.scope))
        request.scope[TENANT_KEY] = tenant  # type: ignore[index]
    session = Authentication((DjangoSessionAuthentication(),), request.authentication.resource)
    middleware = django_middleware.get()
    try:
        caller = await session.authenticate(request.scope)
        if middleware is None:
            return caller
        if not middleware.authenticates:
            return await django_middleware.check(request, caller)
        await django_middleware.check(request)
        return caller
    except (AuthenticationFailed, HttpError):
        return None


async def listed_to(request: HttpExchange, caller: Principal) -> list[ListedTool]:
    """Return the tools of the answer to ``tools/list``; none where the list is refused."""
    server = request.server
    if server.short_lists:
        everything = replace(caller.selection or Selection(), all_tools=True)
        caller = replace(caller, selection=everything)
    registry.make_ready(server)
    exchange = LoopExchange(server, caller, request.transport)
    frame = frames.stateless(exchange, Request(1, "tools/list", {}), OF_NO_CLIENT)
    prepared = await handle.prepare(frame, site.get())
    result, _ = await dispatcher.call(prepared.put_private(pagination_limit=sys.maxsize))
    if isinstance(result, McpError):
        return []
    tools = []
    for listed in result["tools"]:
        tool = server.components.find(ToolComponent.kind, listed["name"])
        # What models may not know of is not for people, either.
        if tool is None or tool.is_for_models:
            tools.append(ListedTool(listed))
    return tools
