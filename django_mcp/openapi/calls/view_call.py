"""The handler of a tool: a request to the view of one operation, and its response as a result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from django.urls import ResolverMatch

from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.openapi.arguments import Arguments
from django_mcp.openapi.calls import requests, responses, rows, view_middleware
from django_mcp.openapi.calls.answers import Echo, RowFields
from django_mcp.openapi.calls.requests import Caller
from django_mcp.openapi.calls.view_middleware import STATUSES, response_to
from django_mcp.openapi.parameters import whole
from django_mcp.openapi.routes import Route
from django_mcp.runtime.django_types.uploads import Uploads

MULTIPART = "multipart/form-data"


class Operation(Protocol):
    """The parts of an operation that its call needs."""

    @property
    def method(self) -> str: ...

    @property
    def route(self) -> Route: ...

    @property
    def has_body(self) -> bool: ...


class Credentials(Protocol):
    """As which callers the tool of one operation calls its view."""

    def caller(self, frame: Frame) -> Caller:
        """Return the caller as the view knows them; raises ToolError."""
        ...


class ViewCall:
    """Calls the view of one operation: no argument leads to another URL or another method."""

    def __init__(
        self,
        operation: Operation,
        arguments: Arguments,
        pages: rows.Pages | None,
        *,
        accept: str,
        query: Mapping[str, str],
        content_types: Sequence[str],
        credentials: Credentials,
        prepare: Any,
        echo: Echo | None = None,
        row_fields: RowFields | None = None,
    ) -> None:
        self.credentials = credentials
        self._operation = operation
        self._arguments = arguments
        self._pages = pages
        self._accept = accept
        self._fixed_query = query
        self._content_types = content_types
        self._prepare = prepare
        self._echo = echo
        self._row_fields = row_fields

    def call(self, arguments: dict[str, Any], frame: Frame) -> Any:
        with Uploads() as uploads:
            request, match = self._request(arguments, frame, uploads)
            try:
                response = view_middleware.call(request, match)
                return self._read(response, frame, request, arguments)
            except tuple(STATUSES) as error:
                return responses.read(response_to(error), frame, request)

    async def call_async(self, arguments: dict[str, Any], frame: Frame) -> Any:
        with Uploads() as uploads:
            request, match = await frame.exchange.run(self._request, arguments, frame, uploads)
            try:
                response = await view_middleware.acall(request, match)
                return await frame.exchange.run(self._read, response, frame, request, arguments)
            except tuple(STATUSES) as error:
                return responses.read(response_to(error), frame, request)

    def _read(
        self,
        response: Any,
        frame: Frame,
        request: requests.ToolRequest,
        arguments: Mapping[str, Any],
    ) -> Any:
        """Return the tool's result; the content is rendered here, as Django does at the end."""
        if callable(getattr(response, "render", None)) and not response.is_rendered:
            response.render()
        most = responses.MAX_BYTES if self._pages is None else rows.MAX_BYTES
        value = responses.read(response, frame, request, max_bytes=most, arguments=arguments)
        if self._echo is not None:
            value = self._echo.shortened(value, arguments, response.status_code)
        if self._row_fields is not None:
            value = self._row_fields.selected(value, arguments)
        return value if self._pages is None else self._pages.part(value, frame, arguments)

    def _request(
        self, arguments: Mapping[str, Any], frame: Frame, uploads: Uploads
    ) -> tuple[requests.ToolRequest, ResolverMatch]:
        declared = self._arguments
        path = {name: whole(arguments[each]) for each, name in declared.variables.items()}
        resolved = self._operation.route.resolve({**path, **declared.fixed})
        if resolved is None:
            raise ToolError(responses.SUMMARIES[404])
        caller = self.credentials.caller(frame)
        request = requests.build(
            self._operation.method,
            *resolved,
            frame,
            caller=caller,
            query=declared.query_string(arguments, self._fixed_query),
            accept=self._accept,
            headers=declared.headers(arguments),
            **self._body(arguments, uploads),
        )
        if self._prepare is not None:
            self._prepare(request, frame)
            requests.set_caller(request, caller)
        return request, resolved[1]

    def _body(self, arguments: Mapping[str, Any], uploads: Uploads) -> dict[str, Any]:
        """The parts of the request that have its data."""
        if not self._operation.has_body:
            return {}
        data = {} if self._arguments.body is None else self._arguments.data(arguments, uploads)
        # A list has no files.
        has_files = any(data.get(name) for name in self._arguments.files)
        chosen = self._content_types[-1 if has_files else 0]
        if chosen == MULTIPART:
            return {"form": requests.form_of(data)}
        return {"content_type": chosen, "body": json.dumps(data).encode()}
