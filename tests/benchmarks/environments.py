"""The environments in `.bench`: one for the project, and one for each peer with its requirements.

They are created on first use, and again when the requirements have changed. `python -m
tests.benchmarks.environments NAME ...` creates some ahead: a test has less time than that may take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.benchmarks.answers import MeasurementError

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENTS = ROOT / ".bench"

UVICORN = ("uvicorn", "uvloop", "httptools")
PSYCOPG = "psycopg[binary,pool]"
SITE = (
    "--editable",
    f"{ROOT}[events,jwt,oauth,rest,skills]",
    *UVICORN,
    "granian",
    "gunicorn",
    "daphne",
    "channels_redis",
    PSYCOPG,
)
REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    "site": SITE,
    "site-newest": SITE,
    "sdk": ("mcp==2.3.0", "django", *UVICORN),
    "fastmcp": ("fastmcp==4.1.2", "django", *UVICORN),
    "mcpz": ("django-mcpz==1.2.0", "gunicorn", PSYCOPG, "pydantic"),
    "django_admin_mcp": ("django-admin-mcp==0.11.1", "django~=5.2.0"),
    "frisian_mcp": ("frisian-mcp==1.1.1", "django~=5.2.0"),
    "mcp_django": ("mcp-django==0.14.0",),
    "rest_framework_mcp": ("django-rest-framework-mcp==0.1.0a4",),
    "ninja_with_fastmcp": ("fastmcp==4.1.2", "django", "django-ninja==1.7.1", *UVICORN),
    "django_mcp_server": ("django-mcp-server==0.5.7", "mcp==1.30.0", "gunicorn", PSYCOPG),
    "rest_framework_mcp_server": (
        "djangorestframework-mcp-server==0.54.0",
        "gunicorn",
        PSYCOPG,
    ),
    "bolt": ("bolt-mcp==0.2.3", "django-bolt==0.13.0"),
}

ON_NEWEST = frozenset({"bolt", "site-newest"})
"""Environments of the newest Python: bolt-mcp requires 3.12, and is compared on the same Python."""

NAMED = frozenset(
    {
        "bolt-mcp", "channels", "daphne", "django", "django-bolt", "django-mcp-channels",
        "django-mcp-server", "django-mcpz", "django-oauth-toolkit",
        "djangorestframework-mcp-server",
        "fastmcp", "granian", "gunicorn", "httptools", "mcp", "psycopg", "pydantic",
        "pydantic-core",
        "uvicorn", "uvloop",
    }
)  # fmt: skip
"""The packages whose versions are reported."""


def python(name: str) -> Path:
    """Return the interpreter of an environment, which is created if necessary."""
    folder = ENVIRONMENTS / name
    made, wanted = folder / "made-from", _wanted(name)
    if not made.exists() or made.read_text() != wanted:
        print(f"Making {folder.relative_to(ROOT)} ...", file=sys.stderr)
        subprocess.run([*_interpreter(name), "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        subprocess.run([*pip, *REQUIREMENTS[name]], check=True)
        made.write_text(wanted)
    return folder / "bin" / "python"


def versions(name: str) -> dict[str, str]:
    """Return the versions of the reported packages in an environment."""
    command = [str(python(name)), "-m", "pip", "list", "--format", "json"]
    done = subprocess.run(command, check=True, capture_output=True)
    found = {
        each["name"].lower().replace("_", "-"): each["version"] for each in json.loads(done.stdout)
    }
    return {package: version for package, version in found.items() if package in NAMED}


def newest_python() -> str:
    """Return the newest Python of this machine: of PATH, or of pyenv, from 3.12 on.

    Raises MeasurementError if there is none.
    """
    newest = max(_interpreters(), default=None)
    if newest is None or newest[0] < (3, 12):
        raise MeasurementError("No Python 3.12 or newer, on which bolt-mcp could be measured.")
    return newest[1]


@cache
def _interpreters() -> tuple[tuple[tuple[int, int], str], ...]:
    """Return the versions and paths of interpreters that run; a shim of pyenv may not."""
    return tuple(
        ((3, minor), path)
        for minor in (11, 12, 13, 14)
        for path in _candidates(f"python3.{minor}")
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0
    )


def _candidates(program: str) -> Iterator[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    for folder in (*folders, *sorted(pyenv.glob("*/bin"))):
        if (folder / program).exists():
            yield str(folder / program)


def _interpreter(name: str) -> list[str]:
    return [newest_python() if name in ON_NEWEST else sys.executable]


def _wanted(name: str) -> str:
    needs = REQUIREMENTS[name]
    if needs is SITE:
        # The package is installed in editable mode, so only its dependencies matter.
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        needs = (*needs, *project["dependencies"])
    return f"{_interpreter(name)} {sys.version} {needs}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        python(name)
