"""Agent frameworks against the example site: they list its tools and call one, without a model.

Their standard error streams are empty: nothing that the site does makes them print a traceback.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import environments
from tests.processes import ROOT
from tests.running_site import RunningSite
from tests.waiting import SECONDS

pytestmark = pytest.mark.nightly

FRAMEWORKS = ("langchain", "pydantic_ai", "openai_agents", "fastmcp")
PROGRAMS = Path(__file__).resolve().parent / "frameworks"
TIMEOUT = SECONDS
SESSIONS = 3
"""How often each connects: a notification may reach a session that is about to end."""


@pytest.mark.parametrize("over", ["http", "stdio"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_framework_lists_and_calls_tools_and_prints_no_error(
    framework: str, over: str, site: RunningSite
) -> None:
    # The frameworks pass few variables on to a process that they start.
    variables = [f"{name}={site.environment[name]}" for name in ("EXAMPLE_DATABASE",)]
    stdio: list[str] = ["env", *variables, sys.executable, str(ROOT / "manage.py"), "mcp_stdio"]
    target = [site.url("/mcp")] if over == "http" else stdio
    # Without the folder of the program on the path, whose modules have the names of packages.
    command: list[str | Path] = [
        environments.python(framework),
        "-P",
        PROGRAMS / f"{framework}.py",
        *target,
    ]
    for _ in range(SESSIONS if over == "http" else 1):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=dict(site.environment),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done.stderr
        printed = json.loads(done.stdout)
        assert "search_tickets" in printed["tools"]
        assert all("Printer prints blank pages" in each for each in printed["results"])
        assert done.stderr == ""
