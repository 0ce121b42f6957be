"""manage.py mcp_call: calls a tool, reads a resource or gets a prompt, without a client."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp import registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch import handle
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import MissingClientCapability
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.protocol.request_meta import OF_NO_CLIENT, RequestMeta
from django_mcp.core.protocol.texts import did_you_mean
from django_mcp.core.server.server import Server
from django_mcp.management import calls, terminal
from django_mcp.runtime import pools
from django_mcp.transports import site
from django_mcp.transports.in_process import newest_request

LEVELS = {0: None, 1: "info"}
"""The least severe log messages which are shown, by verbosity; from 2 on all of them."""


MAX_ATTEMPTS = 10
"""How often a call may request input."""


class Command(BaseCommand):
    help = "Calls a tool, gets a prompt or reads a resource, as nobody or as a user."
    requires_system_checks: list[str] = []  # Nobody has to authenticate: it needs no authenticator.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of a tool or a prompt, or the URI of a resource")
        parser.add_argument(
            "arguments", nargs="?", default="{}", help="a JSON object, written right after the name"
        )
        parser.add_argument("--server", default=registry.default.name, help="name of the server")
        calls.add_caller_arguments(parser)
        parser.add_argument(
            "--json", action="store_true", dest="as_json", help="print the whole result as JSON"
        )

    def handle(self, *args: Any, **options: Any) -> str:
        registry.raise_broken()
        server = calls.get_server(options["server"])
        arguments = calls.read_arguments(options["arguments"])
        name = calls.checked_text(options["name"], "name")
        request = _request(server, name, arguments)
        caller = calls.principal("command", options["user"], options["scope"])
        level = LEVELS.get(options["verbosity"], "debug")
        # On this thread, a debugger that the handler starts has the terminal.
        with pools.thread_sensitive(), _configuration_errors() as errors:
            frame, result = async_to_sync(self._call)(server, caller, request, level)
        if errors:
            raise CommandError(str(errors[0])) from errors[0]
        return _shown(frame, result, as_json=options["as_json"])

    async def _call(
        self, server: Server, caller: Principal, request: Request, level: str | None
    ) -> tuple[Frame, dict[str, Any]]:
        """Return the Frame and the result; while that requests input, ask the user, and repeat."""
        is_interactive = terminal.is_interactive()
        capabilities = terminal.CAPABILITIES if is_interactive else {}
        meta: RequestMeta = {
            **OF_NO_CLIENT,
            "client_capabilities": capabilities,
            "log_level": level,
        }
        for _ in range(MAX_ATTEMPTS):
            frame = newest_request(
                server,
                caller,
                request,
                transport=calls.transport(),
                receive=self._show,
                meta=meta,
            )
            body = await handle.answer(frame, site.get())
            result = jsonrpc.decode(body).get("result", {})
            if not is_interactive or result.get("resultType") != "input_required":
                return frame, result
            requests = result.get("inputRequests", {})
            answers = {name: terminal.answer_to(each) for name, each in requests.items()}
            params = {**request.params, "inputResponses": answers}
            if "requestState" in result:
                params["requestState"] = result["requestState"]
            request = request._replace(params=params)
        raise CommandError(f"The call requests input again after {MAX_ATTEMPTS} answers")

    def _show(self, message: dict[str, Any]) -> None:
        if message["method"] == "notifications/progress" and terminal.is_interactive():
            self.stderr.write(terminal.progress_bar(message["params"]))
            return
        params = {k: v for k, v in message["params"].items() if k not in ("_meta", "progressToken")}
        self.stderr.write(f"{message['method']} {json.dumps(params, ensure_ascii=False)}")


@contextmanager
def _configuration_errors() -> Iterator[list[ImproperlyConfigured]]:
    """Collect errors of the settings that a handler finds, instead of logging their tracebacks."""
    errors: list[ImproperlyConfigured] = []

    def collect(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ImproperlyConfigured):
            errors.append(error)
            return False
        return True

    logger = logging.getLogger("django_mcp")
    logger.addFilter(collect)
    try:
        yield errors
    finally:
        logger.removeFilter(collect)


def _request(server: Server, name: str, arguments: dict[str, Any]) -> Request:
    """Return the request for the tool of this name, else the prompt, else the resource."""
    meta = {"progressToken": "mcp_call"}
    for kind, method in (("tool", "tools/call"), ("prompt", "prompts/get")):
        if server.components.find(kind, name) is not None:
            return Request(1, method, {"name": name, "arguments": arguments, "_meta": meta})
    if ":" not in name:
        names = {item.key for item in server.components.all() if item.kind in ("tool", "prompt")}
        remedy = did_you_mean(name, names, "see mcp_show")
        raise CommandError(
            f"The server {server.name!r} has no tool and no prompt {name!r}: {remedy}"
        )
    return Request(1, "resources/read", {"uri": name, "_meta": meta})


def _shown(frame: Frame, result: dict[str, Any], *, as_json: bool) -> str:
    error = frame.exchange.error
    if error is not None:
        raise CommandError(f"{error.message}{_remedy(frame)}")
    text = _json(result) if as_json else _readable(result)
    if result.get("isError"):
        raise CommandError(text)
    return text


def _remedy(frame: Frame) -> str:
    """A hint where the component exists but is hidden from the caller."""
    name = frame.message.params.get("name", "")
    components = frame.server.components
    called = components.find("tool", name) or components.find("prompt", name)
    if isinstance(frame.exchange.error, MissingClientCapability) and not terminal.is_interactive():
        return ". It asks its user: run mcp_call in a terminal, which can answer"
    return calls.missing_rights(called, frame.principal)


def _readable(result: dict[str, Any]) -> str:
    """The structure of a result, else its text; content that is not text as JSON."""
    if "structuredContent" in result:
        return _json(result["structuredContent"])
    if (blocks := result.get("content") or result.get("contents")) is None:
        blocks = [message["content"] for message in result.get("messages", ())]
    return "\n".join(block["text"] if "text" in block else _json(block) for block in blocks)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
