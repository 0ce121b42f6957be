"""Clients that know skills read the skills of the example site, each file by its digest."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients import environments
from tests.clients.conftest import Command
from tests.processes import ROOT
from tests.running_site import RunningSite
from tests.waiting import SECONDS

pytestmark = pytest.mark.nightly

PROGRAM = Path(__file__).resolve().parent / "frameworks" / "fastmcp_skills.py"
SKILLS = {
    "/mcp": {"triage": ["triage/SKILL.md"]},
    "/conformance": {
        "checklist": [
            "checklist/SKILL.md",
            "checklist/reference/steps.md",
            "checklist/review/SKILL.md",
        ],
        "review": ["checklist/review/SKILL.md"],
    },
}
"""By server: the skills that an anonymous caller may use, with their files."""
FOLDERS = {"/mcp": "helpdesk", "/conformance": "conformance"}
of_each_server = pytest.mark.parametrize("path", SKILLS, ids=FOLDERS.get)


def output(command: Command, site: RunningSite) -> str:
    """Return what a client prints; fail with its errors if it fails."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=dict(site.environment),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def inspect(site: RunningSite, path: str, *arguments: str) -> str:
    """Run the official inspector on the command line."""
    programs = environments.made("inspector") / "node_modules" / ".bin"
    command: Command = [programs / "node", programs / "mcp-inspector", "--cli", site.url(path)]
    return output([*command, "--transport", "http", "--method", *arguments], site)


@of_each_server
def test_inspector_verifies_every_file_by_its_digest(path: str, site: RunningSite) -> None:
    printed = inspect(site, path, "skills/list", "--verify", "--require-digests")

    reports = [json.loads(line) for line in printed.splitlines()]
    assert {report["outcome"] for report in reports} == {"verified"}
    files = {report["name"]: [file["uri"] for file in report["files"]] for report in reports}
    assert files == {
        name: [f"skill://{file}" for file in files] for name, files in SKILLS[path].items()
    }
    for report in reports:
        assert report["conformance"] == report["frontmatter"] == []
        assert {file["status"] for file in report["files"]} == {"verified"}


def test_inspector_shows_a_skill_and_its_folder(site: RunningSite) -> None:
    uri = "skill://checklist/SKILL.md"
    skill = json.loads(inspect(site, "/conformance", "skills/get", "--uri", uri))["skill"]
    assert skill["frontmatter"]["metadata"] == {
        "version": "1.10",
        "date": "2026-01-01",
        "answer": "yes",
    }

    method = "resources/directory/read"
    folder = json.loads(inspect(site, "/conformance", method, "--uri", "skill://checklist"))
    names = [child["name"] for child in folder["resources"]]
    assert names == ["checklist", "reference", "review"]


@of_each_server
def test_fastmcp_reads_every_file_by_its_digest(path: str, site: RunningSite) -> None:
    command: Command = [environments.python("fastmcp"), "-P", PROGRAM, site.url(path)]
    skills: dict[str, list[Any]] = json.loads(output(command, site))

    assert {name: [file[0] for file in files] for name, files in skills.items()} == {
        name: [f"skill://{file}" for file in files] for name, files in SKILLS[path].items()
    }
    folder = ROOT / "example_site" / FOLDERS[path] / "skills"
    for uri, digest, size, encoded in (file for files in skills.values() for file in files):
        data = base64.b64decode(encoded)
        assert digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert size == len(data)
        assert data == (folder / uri.removeprefix("skill://")).read_bytes()
