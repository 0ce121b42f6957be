"""Installs the built wheel into a project made by startproject, and calls a tool of it over HTTP.

Run as `python -m tests.wheel.check <wheel>`, with an interpreter that can create environments.
"""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.http_client import TIMEOUT, message
from tests.running_site import RunningSite, manage, serving

MUST_HAVE = ("django_mcp/py.typed", "django_mcp/migrations/0001_initial.py")
MAY_HAVE = ("django_mcp/", "django_mcp_channels-")

MCP = '''
from django_mcp import tool


@tool
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b
'''

SETTINGS = """
INSTALLED_APPS += ["django_mcp", "shop"]
DJANGO_MCP = {"AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"]}
"""

# The asgi.py of startproject, and its replacement.
MOUNTED = {
    "import get_asgi_application\n": (
        "import get_asgi_application\nfrom django_mcp.routing import mount\n"
    ),
    "= get_asgi_application()": "= mount(get_asgi_application())",
}


def main(wheel: Path) -> None:
    _check_contents(wheel)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = _environment(folder / "env", wheel)
        project = _project(folder / "project", python)
        environment = _clean_environment()
        manage(python, project, environment, "migrate", "--verbosity", "0")
        manage(python, project, environment, "check", "--fail-level", "ERROR")
        with serving("project.asgi:application", python, project, environment) as site:
            text = _call(site, "add", {"a": 2, "b": 3})["content"][0]["text"]
            assert text == "5", text
    print(f"{wheel.name} serves a tool.")


def _check_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    strange = [name for name in names if not name.startswith(MAY_HAVE)]
    missing = [name for name in MUST_HAVE if name not in names]
    assert not strange, f"The wheel contains {strange}"
    assert not missing, f"The wheel lacks {missing}"


def _environment(folder: Path, wheel: Path) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    return python


def _clean_environment() -> dict[str, str]:
    """Our environment without the variables that would import this repository."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"DJANGO_SETTINGS_MODULE", "PYTHONPATH"}
    }


def _project(folder: Path, python: Path) -> Path:
    folder.mkdir()
    _django_admin(python, folder, "startproject", "project", ".")
    _django_admin(python, folder, "startapp", "shop")
    (folder / "shop" / "mcp.py").write_text(MCP)
    settings, asgi = folder / "project" / "settings.py", folder / "project" / "asgi.py"
    settings.write_text(settings.read_text() + SETTINGS)
    for old, new in MOUNTED.items():
        assert old in asgi.read_text(), f"startproject no longer writes {old!r}"
        asgi.write_text(asgi.read_text().replace(old, new))
    return folder


def _django_admin(python: Path, folder: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "django", *arguments], check=True, cwd=folder)


def _call(site: RunningSite, tool: str, arguments: Mapping[str, Any]) -> Any:
    body, headers = message(tool, arguments)
    with httpx.Client(timeout=TIMEOUT, trust_env=False) as client:
        response = client.post(site.url("/mcp"), content=body, headers=headers)
    return response.raise_for_status().json()["result"]


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
