"""Installs built distributions into a project made by startproject, and calls a tool over HTTP.

Run as `python -m tests.wheel.check dist/*`, for a wheel and a source distribution. With `--matrix`,
each is installed on every Python of this machine, with every Django for it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.http_client import TIMEOUT, message
from tests.running_site import RunningSite, manage, serving

MUST_HAVE = (
    "django_mcp/py.typed",
    "django_mcp/skills/django-mcp/SKILL.md",
    "django_mcp/locale/de/LC_MESSAGES/django.mo",
    "django_mcp/migrations/0001_initial.py",
    "django_mcp/migrations/0002_mcptask_overdue_at.py",
    "django_mcp/migrations/0003_task_waits.py",
    "django_mcp/static/django_mcp/pages.css",
    "django_mcp/templates/django_mcp/page.html",
)
DJANGO: Mapping[str, tuple[str, ...]] = {
    "3.11": ("5.2",),
    "3.12": ("5.2", "6.0"),
    "3.13": ("5.2", "6.0"),
    "3.14": ("5.2", "6.0"),
}
"""The versions of Django for each Python."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("distributions", nargs="+", type=Path)
    parser.add_argument("--matrix", action="store_true")
    options = parser.parse_args()
    environments = list(_matrix()) if options.matrix else [(Path(sys.executable), "")]
    for distribution in options.distributions:
        if distribution.suffix == ".whl":
            _check_contents(distribution)
        for base, django in environments:
            _serve(distribution.resolve(), base, django)


def _matrix() -> Iterator[tuple[Path, str]]:
    """Each Python of this machine, with the versions of Django for it."""
    for version, django in DJANGO.items():
        base = _interpreter(version)
        if base is None:
            print(f"There is no Python {version} here.")
        for each in django if base else ():
            yield Path(str(base)), each


def _interpreter(version: str) -> Path | None:
    """The Python of this version on PATH or of pyenv, as far as it runs: some are only shims."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*map(Path, os.environ["PATH"].split(os.pathsep)), *versions.glob("*/bin")]
    for program in (folder / f"python{version}" for folder in folders):
        if program.exists() and _runs(program):
            return program
    return None


def _runs(program: Path) -> bool:
    done = subprocess.run([program, "-c", "import venv, ensurepip"], capture_output=True)
    return done.returncode == 0


def _serve(distribution: Path, base: Path, django: str) -> None:
    """Install a distribution in a new environment, and call a tool of a new project."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = _environment(folder / "env", distribution, base, django)
        project = _project(folder / "project", python)
        environment = _clean_environment()
        manage(python, project, environment, "migrate", "--verbosity", "0")
        manage(python, project, environment, "check", "--fail-level", "ERROR")
        with serving("project.asgi:application", python, project, environment) as site:
            text = _call(site, "add", {"a": 2, "b": 3})["content"][0]["text"]
            assert text == "5", text
    print(f"{distribution.name} serves a tool with {base.name}, Django {django or 'newest'}.")


def _check_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    strange = [name for name in names if not name.startswith(MAY_HAVE)]
    missing = [name for name in MUST_HAVE if name not in names]
    assert not strange, f"The wheel contains {strange}"
    assert not missing, f"The wheel lacks {missing}"


def _environment(folder: Path, distribution: Path, base: Path, django: str) -> Path:
    subprocess.run([base, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    versions = [f"django~={django}.0"] if django else []
    options = ["--quiet", "--disable-pip-version-check"]
    install: list[str | Path] = [python, "-m", "pip", "install", *options, distribution, *versions]
    subprocess.run(install, check=True)
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
    main()
