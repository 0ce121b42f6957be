"""The environments in `.bench`: one for the project, and one for each peer with its requirements.

They are created on first use, and again when the requirements have changed. `python -m
tests.benchmarks.environments NAME ...` creates some ahead: a test has less time than that may take.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENTS = ROOT / ".bench"

UVICORN = ("uvicorn", "uvloop", "httptools")
PSYCOPG = "psycopg[binary,pool]"
REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    "site": (
        "--editable",
        f"{ROOT}[jwt,oauth,orjson,rest]",
        *UVICORN,
        "granian",
        "gunicorn",
        "daphne",
        "channels_redis",
        PSYCOPG,
    ),
    "sdk": ("mcp==2.3.0", "django", *UVICORN),
    "fastmcp": ("fastmcp==4.1.2", "django", *UVICORN),
    "mcpz": ("django-mcpz==1.2.0", "gunicorn", PSYCOPG, "pydantic"),
    "mcp_django": ("mcp-django==0.14.0",),
    "rest_framework_mcp": ("django-rest-framework-mcp==0.1.0a4",),
    "django_mcp_server": ("django-mcp-server==0.5.7", "mcp==1.30.0", "gunicorn", PSYCOPG),
}

NAMED = frozenset(
    {
        "channels", "daphne", "django", "django-mcp-channels", "django-mcp-server", "django-mcpz",
        "django-oauth-toolkit",
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
        venv.create(folder, clear=True, with_pip=True)
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


def _wanted(name: str) -> str:
    needs = REQUIREMENTS[name]
    if name == "site":
        # The package is installed in editable mode, so only its dependencies matter.
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        needs = (*needs, *project["dependencies"])
    return f"{sys.version} {needs}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        python(name)
