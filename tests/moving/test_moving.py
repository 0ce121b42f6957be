"""The projects of the guides for who comes from another package do the same before and after."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import environments
from tests.docs.examples import FENCE, ROOT
from tests.http_client import HEADERS, connect
from tests.moving.project import (
    HERE,
    answers_over_stdio,
    connected,
    lay_out,
    printed,
    served,
    tools,
)

RUNSERVER = ("manage", "runserver", "--noreload", "127.0.0.1:{port}")
UVICORN = ("uvicorn", "mysite.asgi:application", "--port", "{port}", "--log-level", "warning")
DAPHNE = ("daphne", "-b", "127.0.0.1", "-p", "{port}", "mysite.asgi:application")


@dataclass(frozen=True, slots=True)
class OtherPackage:
    """Another package: how its project is served, and the same call before and after."""

    folder: str
    environment: str
    command: tuple[str, ...]
    path: str = "/mcp"
    before: str = "find_products"
    after: str = "find_products"
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"text": "green"})
    shows: tuple[str, ...] = ("Green tea",)
    token: str | None = None


PACKAGES = (
    OtherPackage("django_mcp_server", "django_mcp_server", RUNSERVER),
    OtherPackage("django_mcpz", "mcpz", RUNSERVER),
    OtherPackage("fastmcp", "fastmcp", UVICORN),
    OtherPackage("sdk", "sdk", UVICORN),
    OtherPackage(
        "djangorestframework_mcp_server",
        "rest_framework_mcp_server",
        RUNSERVER,
        path="/mcp/",
    ),
    OtherPackage(
        "rest_framework_mcp",
        "rest_framework_mcp",
        RUNSERVER,
        path="/mcp/",
        before="list_products",
        after="product_list",
        arguments={},
        shows=("Green tea", "Teapot"),
    ),
    OtherPackage(
        "ninja_with_fastmcp",
        "ninja_with_fastmcp",
        UVICORN,
        before="shop_api_list_products",
        after="list_products",
        arguments={"search": "green"},
        token="secret",
    ),
)
of_each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.folder)


@pytest.mark.nightly
@of_each_package
def test_project_with_the_other_package_runs(package: OtherPackage, tmp_path: Path) -> None:
    python = environments.python(package.environment)
    with served(tmp_path, [f"{package.folder}/before"], python, package.command) as port:
        check(port, package.path, package.before, package)


@of_each_package
def test_project_that_was_converted_gives_the_same(package: OtherPackage, tmp_path: Path) -> None:
    overlays = ["mounted", f"{package.folder}/after"]
    with served(tmp_path, overlays, Path(sys.executable), DAPHNE) as port:
        check(port, "/mcp", package.after, package)


def check(port: int, path: str, tool: str, package: OtherPackage) -> None:
    """Call the tool, and compare what it shows of the products."""
    with connected(port, path, package.token) as client:
        assert tool in tools(client)
        text = client.text(tool, **package.arguments)
    assert [name for name in ("Green tea", "Teapot") if name in text] == [*package.shows]


@pytest.mark.nightly
def test_mcp_django_shows_the_models_to_an_agent(tmp_path: Path) -> None:
    python = environments.python("mcp_django")
    environment = lay_out(tmp_path, ["mcp_django/before"], python)
    command: list[str | Path] = [python, "-m", "mcp_django", "--settings", "mysite.settings"]
    text = answers_over_stdio(command, tmp_path, environment, "project_list_models")
    assert "Product" in text


def test_server_for_developers_shows_the_models_to_an_agent(tmp_path: Path) -> None:
    python = Path(sys.executable)
    environment = lay_out(tmp_path, ["mounted", "mcp_django/after"], python)
    command: list[str | Path] = [python, "manage.py", "mcp_stdio", "--server", "dev"]
    text = answers_over_stdio(command, tmp_path, environment, "list_models")
    assert "shop.Product: id, name, price, stock" in text


MAKE_USER = """
from django.contrib.auth.models import User
root = User.objects.create_superuser("root")
"""
MAKE_TOKEN = (
    MAKE_USER
    + """
from django.contrib.auth.models import Permission
from django_admin_mcp.models import MCPToken
token = MCPToken.objects.create(name="laptop", user=root)
token.permissions.set(Permission.objects.all())
print(token.get_plaintext_token())
"""
)


@pytest.mark.nightly
def test_admin_with_the_mixin_runs(tmp_path: Path) -> None:
    python = environments.python("django_admin_mcp")
    with served(tmp_path, ["django_admin_mcp/before"], python, RUNSERVER) as port:
        token = printed(python, tmp_path, "shell", "-c", MAKE_TOKEN)
        with connected(port, "/mcp/", token) as client:
            assert len([name for name in tools(client) if name.endswith("_product")]) == 12
            text = client.text("list_product", search="green")
    assert "Green tea" in text
    assert "Teapot" not in text


def test_admin_that_was_converted_gives_the_same(tmp_path: Path) -> None:
    overlays = ["mounted", "django_admin_mcp/after"]
    python = Path(sys.executable)
    with served(tmp_path, overlays, python, DAPHNE) as port:
        printed(python, tmp_path, "shell", "-c", MAKE_USER + "print(root)")
        token = printed(python, tmp_path, "mcp_token", "create", "root", "--name", "laptop")
        with connected(port, "/mcp", token) as client:
            assert len(tools(client)) == 11
            text = client.text("admin_search", model="shop.Product", text="green")
    assert "Green tea" in text
    assert "Teapot" not in text


MAKE_FRISIAN_TOKEN = (
    MAKE_USER
    + """
from frisian_mcp.contrib.tokens.models import FrisianMcpToken
token = FrisianMcpToken(name="laptop", user=root)
token.save()
print(token.plaintext_token)
"""
)


@pytest.mark.nightly
def test_api_with_one_tool_for_a_group_runs(tmp_path: Path) -> None:
    python = environments.python("frisian_mcp")
    with served(tmp_path, ["frisian_mcp/before"], python, RUNSERVER) as port:
        token = printed(python, tmp_path, "shell", "-c", MAKE_FRISIAN_TOKEN)
        with connected(port, "/mcp", token) as client:
            assert tools(client) == ["shop"]
            call = partial(client.text, "shop", resource="product")
            found = call(action="list", params={"search": "green"})
            changed = call(action="partial_update", params={"id": 1, "stock": 9})
    check_group(found, changed)


def test_api_with_one_tool_for_a_view_gives_the_same(tmp_path: Path) -> None:
    overlays = ["mounted", "frisian_mcp/after"]
    python = Path(sys.executable)
    with served(tmp_path, overlays, python, DAPHNE) as port:
        printed(python, tmp_path, "shell", "-c", MAKE_USER + "print(root)")
        token = printed(python, tmp_path, "mcp_token", "create", "root", "--name", "laptop")
        with connected(port, "/mcp?groups=shop", token) as client:
            assert tools(client) == ["products"]
            found = client.text("products", action="list", search="green")
            changed = client.text("products", action="partial_update", id=1, stock=9)
    check_group(found, changed)


def check_group(found: str, changed: str) -> None:
    """Compare what is found, and whether a change is answered without the whole object."""
    assert "Green tea" in found
    assert "Teapot" not in found
    assert json.loads(changed)["id"] == 1
    assert "price" not in changed


def test_converted_api_answers_no_caller_without_credentials(tmp_path: Path) -> None:
    overlays = ["mounted", "ninja_with_fastmcp/after"]
    server = served(tmp_path, overlays, Path(sys.executable), DAPHNE)
    with server as port, connect(port, headers=HEADERS) as client:
        response = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert response.status_code == 401


@pytest.mark.parametrize("file", ["shop/api.py", "mysite/urls.py", "shop/mcp.py", "shop/auth.py"])
def test_project_of_ninja_is_that_of_the_page_on_openapi(file: str) -> None:
    page = (ROOT / "docs" / "how-to" / "openapi.md").read_text()
    blocks = (SHOWN.match(block[3]) for block in FENCE.finditer(page))
    shown = {block[1]: block[2] for block in blocks if block}
    assert shown[file] == (HERE / "ninja_with_fastmcp" / "after" / file).read_text()


SHOWN = re.compile(r"# (\S+\.py)\n(.*)", re.DOTALL)


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "how-to" / "move").glob("*.md")), ids=lambda page: page.stem
)
def test_guide_shows_the_code_of_both_projects(page: Path) -> None:
    folder = HERE / page.stem.replace("-", "_")
    labels = {"py": folder / "before", "python": folder / "after"}
    shown = 0
    for match in FENCE.finditer(page.read_text()):
        named = SHOWN.match(match[3])
        if match[2] in labels and named:
            file = labels[match[2]] / named[1]
            shared = HERE / "mounted" / named[1]
            source = (file if file.exists() else shared).read_text()
            assert named[2].strip() in source, f"{page.name} does not show {file}"
            shown += 1
    assert shown
