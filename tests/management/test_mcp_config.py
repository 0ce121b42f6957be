"""The command mcp_config: each client gets the file, the format and the token syntax it reads."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from django_mcp import Server, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.management.client_configuration import CLIENTS

ROOT = Path(__file__).resolve().parents[2]
URL = "https://shop.example/our/shop"
STDIO_ARGUMENTS = [str(ROOT / "manage.py"), "mcp_stdio", "--server", "shop"]
JSON_CLIENTS = ["claude-code", "claude-desktop", "cursor", "vscode", "opencode"]


@pytest.fixture(autouse=True)
def _shop(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    server = Server("shop", path="/our/shop", authenticators=[AnonymousAuthentication()])
    monkeypatch.setattr(registry.registered, "servers", {"mcp": registry.default, "shop": server})
    settings.DJANGO_MCP = {"NAME": "my site", "BASE_URL": "https://shop.example"}


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, server: str = "shop") -> str:
    call_command("mcp_config", *arguments, server=server)
    return capsys.readouterr().out.rstrip("\n")


def content(capsys: pytest.CaptureFixture[str], client: str, *arguments: str) -> str:
    """Return the text below the one heading."""
    heading, _, text = printed(capsys, "--client", client, *arguments).partition("\n")
    assert heading.startswith(f"# {CLIENTS[client].title}, ")
    return text


def entry(capsys: pytest.CaptureFixture[str], client: str, *arguments: str) -> dict[str, Any]:
    """Return what the JSON of a client says about the server."""
    found = json.loads(content(capsys, client, *arguments))
    servers = {
        "vscode": lambda: found["servers"],
        "opencode": lambda: found["mcp"]["servers"],
    }.get(client, lambda: found["mcpServers"])()
    assert [*servers] == ["shop"]
    member: dict[str, Any] = servers["shop"]
    return member


def test_name_in_letters_that_clients_reject_is_replaced(
    capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    settings.DJANGO_MCP = {"NAME": "Магазин", "BASE_URL": "https://shop.example"}

    text = printed(capsys, "--client", "codex", "--transport", "http", server="mcp")

    assert [*tomllib.loads(text)["mcp_servers"]] == ["mcp"]


def test_every_client_is_printed_for_both_transports(capsys: pytest.CaptureFixture[str]) -> None:
    headings = re.findall(r"^# (.*?): ", printed(capsys), re.MULTILINE)
    titles = [client.title for client in CLIENTS.values()]
    assert headings == [f"{title}, {name}" for title in titles for name in ("HTTP", "stdio")]


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude-code", {"type": "http", "url": URL}),
        ("cursor", {"url": URL}),
        ("vscode", {"type": "http", "url": URL}),
        ("opencode", {"type": "remote", "url": URL}),
    ],
)
def test_http_without_a_token_has_no_headers(
    capsys: pytest.CaptureFixture[str], client: str, expected: dict[str, Any]
) -> None:
    assert entry(capsys, client, "--transport", "http") == expected


def test_claude_desktop_takes_a_url_without_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert content(capsys, "claude-desktop", "--transport", "http") == URL


@pytest.mark.parametrize(
    ("client", "reference"),
    [
        ("claude-code", "${MCP_TOKEN}"),
        ("cursor", "${env:MCP_TOKEN}"),
        ("vscode", "${input:shop-token}"),
        ("opencode", "{env:MCP_TOKEN}"),
    ],
)
def test_token_is_referred_to_in_the_syntax_of_the_client(
    capsys: pytest.CaptureFixture[str], client: str, reference: str
) -> None:
    options = ("--transport", "http", "--token")
    assert entry(capsys, client, *options)["headers"] == {"Authorization": f"Bearer {reference}"}
    given = entry(capsys, client, *options, "secret")
    assert given["headers"] == {"Authorization": "Bearer secret"}


def test_vscode_asks_for_the_token(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(content(capsys, "vscode", "--transport", "http", "--token"))
    (prompt,) = found["inputs"]
    assert prompt["id"] == "shop-token"
    assert prompt["password"] is True


def test_claude_desktop_sends_a_token_through_mcp_remote(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = entry(capsys, "claude-desktop", "--transport", "http", "--token", "secret")
    assert found["command"] == "npx"
    assert found["args"][1:] == ["mcp-remote", URL, "--header", "Authorization:${AUTHORIZATION}"]
    assert found["env"] == {"AUTHORIZATION": "Bearer secret"}


def test_codex_is_configured_in_toml(capsys: pytest.CaptureFixture[str]) -> None:
    def server(*arguments: str) -> Any:
        return tomllib.loads(content(capsys, "codex", *arguments))["mcp_servers"]["shop"]

    assert server("--transport", "http") == {"url": URL}
    assert server("--transport", "http", "--token") == {
        "url": URL,
        "bearer_token_env_var": "MCP_TOKEN",
    }
    given = server("--transport", "http", "--token", "secret")
    assert given["http_headers"] == {"Authorization": "Bearer secret"}
    stdio = server("--transport", "stdio")
    assert (stdio["command"], stdio["args"]) == (sys.executable, STDIO_ARGUMENTS)


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_stdio_has_absolute_paths_and_the_settings(
    capsys: pytest.CaptureFixture[str], client: str
) -> None:
    found = entry(capsys, client, "--transport", "stdio")
    if client == "opencode":
        assert found["command"] == [sys.executable, *STDIO_ARGUMENTS]
    else:
        assert (found["command"], found["args"]) == (sys.executable, STDIO_ARGUMENTS)
    environment = found["environment" if client == "opencode" else "env"]
    assert environment == {"DJANGO_SETTINGS_MODULE": "example_site.settings"}


def test_inspector_is_a_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert content(capsys, "inspector", "--transport", "http").endswith(f"--server-url {URL}")
    with_token = content(capsys, "inspector", "--transport", "http", "--token")
    assert with_token.endswith('--header "Authorization: Bearer $MCP_TOKEN"')
    stdio = content(capsys, "inspector", "--transport", "stdio")
    assert stdio.endswith(f"-- {sys.executable} {' '.join(STDIO_ARGUMENTS)}")


def test_default_server_has_the_name_of_the_site_and_no_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--client", "cursor", "--transport")
    http = json.loads(printed(capsys, *options, "http", server="mcp").partition("\n")[2])
    assert http == {"mcpServers": {"my-site": {"url": "https://shop.example/mcp"}}}
    stdio = json.loads(printed(capsys, *options, "stdio", server="mcp").partition("\n")[2])
    assert stdio["mcpServers"]["my-site"]["args"] == STDIO_ARGUMENTS[:2]


def test_url_is_that_of_the_option_or_of_this_machine(
    capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    settings.DJANGO_MCP = {}
    options = ("--transport", "http")
    assert entry(capsys, "cursor", *options)["url"] == "http://localhost:8000/our/shop"
    elsewhere = entry(capsys, "cursor", *options, "--url", "https://other.example/mcp")
    assert elsewhere["url"] == "https://other.example/mcp"


def test_django_is_started_as_a_module_where_there_is_no_manage_py(
    capsys: pytest.CaptureFixture[str],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    settings.BASE_DIR = tmp_path
    monkeypatch.chdir(tmp_path)
    found = entry(capsys, "cursor", "--transport", "stdio")
    assert found["args"] == ["-m", "django", *STDIO_ARGUMENTS[1:]]
    assert found["env"]["PYTHONPATH"] == str(tmp_path)


def test_unknown_server_or_client_raises_command_error() -> None:
    with pytest.raises(CommandError, match="There is no MCP server 'nothing'"):
        call_command("mcp_config", server="nothing")
    with pytest.raises(CommandError, match="invalid choice: 'nobody'"):
        call_command("mcp_config", "--client", "nobody")


@pytest.mark.parametrize("url", ["nope", "shop.example/mcp", "ftp://shop.example/mcp", "http://"])
def test_invalid_url_raises_command_error(url: str) -> None:
    with pytest.raises(CommandError, match="is no http or https URL"):
        call_command("mcp_config", url=url)
