"""The project of the README: what ``startproject`` and ``startapp`` create, and its four steps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.waiting import SECONDS

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = SECONDS
"""Seconds after which a command has failed."""

SETTINGS = """
DJANGO_MCP = {
    "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
}
"""
APPS = 'INSTALLED_APPS = [\n    "django_mcp",\n    "shop",\n'
MCP = '''from django_mcp import tool


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''


def environment() -> Mapping[str, str]:
    """The variables of a developer's shell, without those of the tests."""
    hidden = ("DJANGO_SETTINGS_MODULE", "PYTHONPATH")
    inherited = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**inherited, "PYTHONPATH": str(ROOT)}


def run(folder: Path, *command: str) -> str:
    """Run a Python command in a process of its own; return all that it prints."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
    )
    return done.stdout


def create(folder: Path) -> None:
    """Create the project in an existing folder."""
    run(folder, "-m", "django", "startproject", "mysite", ".")
    run(folder, "-m", "django", "startapp", "shop")
    settings = folder / "mysite/settings.py"
    wsgi = folder / "mysite/wsgi.py"
    settings.write_text(settings.read_text().replace("INSTALLED_APPS = [\n", APPS) + SETTINGS)
    mounted = wsgi.read_text().replace(
        "application = get_wsgi_application()",
        "from django_mcp.routing import mount\n\napplication = mount(get_wsgi_application())",
    )
    wsgi.write_text(mounted)
    (folder / "shop/mcp.py").write_text(MCP)
