"""The configuration of MCP clients for one server: which file each of them reads, and its format.

The formats are from the vendors' documentation. A token is a value, or the name of an
environment variable, which each client refers to in a syntax of its own.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

VARIABLE = "MCP_TOKEN"
"""The environment variable with the token, where the configuration does not contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server over HTTP. An empty token stands for the environment variable; None for none."""

    name: str
    url: str
    token: str | None = None

    def headers(self, variable: str) -> dict[str, Any]:
        """Return the member "headers", with ``variable`` in the place of an unknown token."""
        if self.token is None:
            return {}
        return {"headers": {"Authorization": f"Bearer {self.token or variable}"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A server over stdio: the program, its arguments and its environment variables."""

    name: str
    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def members(self) -> dict[str, Any]:
        members: dict[str, Any] = {"command": self.command, "args": [*self.arguments]}
        if self.environment:
            members["env"] = {**self.environment}
        return members


@dataclass(frozen=True, slots=True)
class Client:
    """One client: where each of its configurations belongs, and the text of it."""

    title: str
    http_place: str
    http: Callable[[Endpoint], str]
    stdio_place: str
    stdio: Callable[[Process], str]


def _json(*path: str, value: Any, **beside: Any) -> str:
    """Return ``value`` as JSON in nested objects, with other members beside the outermost."""
    for name in reversed(path):
        value = {name: value}
    return json.dumps({**beside, **value}, indent=2, ensure_ascii=False)


# Claude Code: https://code.claude.com/docs/en/mcp


def _claude_code_http(server: Endpoint) -> str:
    value = {"type": "http", "url": server.url, **server.headers(f"${{{VARIABLE}}}")}
    return _json("mcpServers", server.name, value=value)


def _mcp_servers(server: Process) -> str:
    return _json("mcpServers", server.name, value=server.members)


# Claude Desktop: its file is for stdio alone, so that a token needs a program in between.


def _claude_desktop_http(server: Endpoint) -> str:
    if server.token is None:
        return server.url
    header = f"Bearer {server.token or f'<{VARIABLE}>'}"
    # The header in a variable: programs on Windows split arguments at spaces.
    bridge = ["-y", "mcp-remote", server.url, "--header", "Authorization:${AUTHORIZATION}"]
    value = {"command": "npx", "args": bridge, "env": {"AUTHORIZATION": header}}
    return _json("mcpServers", server.name, value=value)


# Cursor: https://cursor.com/docs/mcp


def _cursor_http(server: Endpoint) -> str:
    value = {"url": server.url, **server.headers(f"${{env:{VARIABLE}}}")}
    return _json("mcpServers", server.name, value=value)


# VS Code: https://code.visualstudio.com/docs/copilot/reference/mcp-configuration


def _vscode_http(server: Endpoint) -> str:
    prompt_id = f"{server.name}-token"
    value = {"type": "http", "url": server.url, **server.headers(f"${{input:{prompt_id}}}")}
    if server.token != "":
        return _json("servers", server.name, value=value)
    description = f"Access token of {server.name}"
    secret = {"type": "promptString", "id": prompt_id, "description": description, "password": True}
    return _json("servers", server.name, value=value, inputs=[secret])


def _vscode_stdio(server: Process) -> str:
    return _json("servers", server.name, value={"type": "stdio", **server.members})


# Codex: https://developers.openai.com/codex/mcp. A JSON string is one of TOML as well.


def _codex_http(server: Endpoint) -> str:
    members: dict[str, Any] = {"url": server.url}
    if server.token == "":
        members["bearer_token_env_var"] = VARIABLE
    tables = {"http_headers": server.headers("")["headers"]} if server.token else {}
    return "\n".join(_toml(server.name, members, tables))


def _codex_stdio(server: Process) -> str:
    members = {"command": server.command, "args": [*server.arguments]}
    tables = {"env": server.environment} if server.environment else {}
    return "\n".join(_toml(server.name, members, tables))


def _toml(
    name: str, members: Mapping[str, Any], tables: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    yield f"[mcp_servers.{name}]"
    yield from _toml_members(members)
    for table, content in tables.items():
        yield f"\n[mcp_servers.{name}.{table}]"
        yield from _toml_members(content)


def _toml_members(members: Mapping[str, Any]) -> Iterator[str]:
    for name, value in members.items():
        yield f"{name} = {json.dumps(value, ensure_ascii=False)}"


# opencode: https://opencode.ai/v2/docs/mcp-servers


def _opencode_http(server: Endpoint) -> str:
    headers = server.headers(f"{{env:{VARIABLE}}}")
    return _opencode(server.name, {"type": "remote", "url": server.url, **headers})


def _opencode_stdio(server: Process) -> str:
    value: dict[str, Any] = {"type": "local", "command": [server.command, *server.arguments]}
    if server.environment:
        value["environment"] = {**server.environment}
    return _opencode(server.name, value)


def _opencode(name: str, value: Mapping[str, Any]) -> str:
    schema = {"$schema": "https://opencode.ai/config.json"}
    return _json("mcp", "servers", name, value=value, **schema)


# The inspector is configured by its command line.

INSPECTOR = "npx @modelcontextprotocol/inspector"


def _inspector_http(server: Endpoint) -> str:
    url = shlex.quote(server.url)
    page = f"{INSPECTOR} --transport http --server-url {url}"
    if server.token is None:
        return page
    shown = f'"Authorization: Bearer ${VARIABLE}"'
    header = shlex.quote(f"Authorization: Bearer {server.token}") if server.token else shown
    return f"{INSPECTOR} --cli {url} --transport http --method tools/list --header {header}"


def _inspector_stdio(server: Process) -> str:
    variables = [f"-e {shlex.quote(f'{name}={it}')}" for name, it in server.environment.items()]
    program = shlex.join([server.command, *server.arguments])
    return " ".join([INSPECTOR, *variables, "--", program])


PROJECT_OR_HOME = "{0} in a project, or ~/{0} for all of them"
DESKTOP_FILE = "claude_desktop_config.json (Settings, Developer, Edit config)"
CONNECTORS = f"Settings, Connectors, Add custom connector; with a token, {DESKTOP_FILE}"
CURSOR_FILE = PROJECT_OR_HOME.format(".cursor/mcp.json")
VSCODE_FILE = ".vscode/mcp.json in a project; for all, the command MCP: Open User Configuration"
CODEX_FILE = "~/.codex/config.toml, or .codex/config.toml in a trusted project"
TERMINAL = "in a terminal"
OPENCODE_FILE = (
    "opencode.json in a project, or ~/.config/opencode/opencode.json for all; version 1 has the "
    'name directly below "mcp"'
)

CLIENTS: Mapping[str, Client] = {
    "claude-code": Client(
        *("Claude Code", ".mcp.json in a project", _claude_code_http),
        *(".mcp.json in a project", _mcp_servers),
    ),
    "claude-desktop": Client(
        *("Claude Desktop", CONNECTORS, _claude_desktop_http, DESKTOP_FILE, _mcp_servers),
    ),
    "cursor": Client("Cursor", CURSOR_FILE, _cursor_http, CURSOR_FILE, _mcp_servers),
    "vscode": Client("VS Code", VSCODE_FILE, _vscode_http, VSCODE_FILE, _vscode_stdio),
    "codex": Client("Codex", CODEX_FILE, _codex_http, CODEX_FILE, _codex_stdio),
    "opencode": Client("opencode", OPENCODE_FILE, _opencode_http, OPENCODE_FILE, _opencode_stdio),
    "inspector": Client("Inspector", TERMINAL, _inspector_http, TERMINAL, _inspector_stdio),
}
"""The clients by the name that ``mcp_config --client`` takes."""
