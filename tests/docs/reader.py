"""Somebody who follows a page of the documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.clients import environments
from tests.docs.examples import Block, commands
from tests.running_site import RunningSite, serving, serving_by

RUNSERVER = ("manage", "runserver", "--noreload", "127.0.0.1:{port}")
SETUP_COMMANDS = (
    "source",
    "env/bin/python",
    "-m pip",
    "pip install",
    "-m venv",
)
"""Environments exist already."""


class Reader:
    """A reader who follows the page."""

    def __init__(self, folder: Path, stack: ExitStack, **environment: str) -> None:
        self.folder = folder
        self.file = folder
        self.port = "8000"
        self.site: RunningSite | None = None
        self.written: set[Path] = set()
        self._stack = stack
        ours = ("DJANGO_SETTINGS_MODULE", "PYTHONPATH")
        given = {name: it for name, it in os.environ.items() if name not in ours}
        self._environment = {**given, **environment}

    def write(self, block: Block) -> None:
        """Write a file; a block of settings, or another block of the same file, is appended."""
        if block.file is not None:
            self.file = self.folder / f"{block.file.replace('.', '/')}.py"
        is_known = self.file in self.written
        goes_on = block.file is None or is_known or self.file.name == "settings.py"
        self.written.add(self.file)
        present = self.file.read_text() if goes_on else ""
        text = block.text.replace(":8000/mcp", f":{self.port}/mcp")
        self.file.write_text(f"{present}\n{text}")

    def write_template(self, block: Block) -> None:
        """Write a template into the folder that its first line names."""
        named = re.match(r"\{# ([\w/.]+) #\}\n", block.text)
        assert named is not None, block.location
        file = self.folder / named[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)

    def enter(self, block: Block) -> None:
        """Run commands, and compare their output with the page."""
        for words, shown in commands(block):
            line = " ".join(words)
            if line.endswith("runserver"):
                self._serve()
            elif not any(each in line for each in SETUP_COMMANDS):
                words += ["--noinput"] if line.endswith("createsuperuser") else []
                printed = self._run(words)
                assert not shown or printed.strip() == shown, f"{block.location}: {line}: {printed}"
                # Readers who follow the page in its order see no warning of the system checks.
                assert "WARNINGS" not in printed, f"{block.location}: {line}: {printed}"

    def _serve(self) -> None:
        project = (Path(sys.executable), self.folder, self._environment)
        if "ASGI_APPLICATION" in (self.folder / "mysite/settings.py").read_text():
            site = serving("mysite.asgi:application", *project)
        else:
            site = serving_by(RUNSERVER, *project)
        self.site = self._stack.enter_context(site)
        self.port = str(self.site.port)

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(
            [*PROGRAMS[words[0]](), *words[1:]],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.stdout


PROGRAMS: Mapping[str, Callable[[], list[str | Path]]] = {
    "python": lambda: [sys.executable],
    "django-admin": lambda: [sys.executable, "-m", "django"],
    "client/bin/python": lambda: [environments.python("sdk2")],
}
