"""The catalogues of the pages for people: ``python -m tests.translations.catalogues``.

It extracts the texts with Debian's gettext, keeps their translations, and compiles them. A text
that is not translated yet is listed: write its translation into the ``.po`` file, and run it again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from tests.processes import ROOT

PACKAGE = ROOT / "django_mcp"
LOCALE = PACKAGE / "locale"
LANGUAGES = ("de", "es", "fr", "ja", "pt")
NOT_FOR_PEOPLE = (
    "contrib/call_log",
    "contrib/events/extension.py",
    "contrib/events/models.py",
    "contrib/oauth/models.py",
    "contrib/skills",
    "contrib/url_elicitation/models.py",
    "models.py",
    "runtime/read_only_admin.py",
    "tool_search",
    "ui",
)
"""What only the admin shows, beside the modules of that name, by its path in the package."""


def catalogue(language: str, folder: Path = LOCALE) -> Catalog:
    """The catalogue of a language as it is written."""
    with (folder / language / "LC_MESSAGES" / "django.po").open("rb") as file:
        return read_po(file, locale=language)


def messages(catalog: Catalog) -> list[Message]:
    """The messages of a catalogue without its header."""
    return [message for message in catalog if message.id]


def extract(folder: Path) -> Path:
    """Bring the catalogues up to date in a copy of the package; return its folder ``locale``."""
    copy = folder / "package"
    shutil.copytree(PACKAGE, copy, ignore=_ignored)
    shutil.copytree(LOCALE, copy / "locale", dirs_exist_ok=True)
    command = [sys.executable, "-m", "django", "makemessages", "--no-location", "--no-wrap"]
    languages = [f"--locale={language}" for language in LANGUAGES]
    environment = {**os.environ}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    subprocess.run([*command, *languages], cwd=copy, env=environment, check=True)
    return copy / "locale"


def _ignored(folder: str, names: list[str]) -> list[str]:
    within = Path(folder).relative_to(PACKAGE)
    return [
        name
        for name in names
        if name in ("admin", "admin.py", "apps.py", "__pycache__")
        or (within / name).as_posix() in NOT_FOR_PEOPLE
    ]


def main() -> None:
    """Update and compile all catalogues."""
    with tempfile.TemporaryDirectory() as name:
        updated = extract(Path(name))
        for language in LANGUAGES:
            target = LOCALE / language / "LC_MESSAGES"
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(updated / language / "LC_MESSAGES" / "django.po", target)
            catalog = catalogue(language)
            for message in messages(catalog):
                if not message.string or message.fuzzy:
                    print(f"{language}: translate {message.id!r}")
            with (target / "django.mo").open("wb") as file:
                write_mo(file, catalog)


if __name__ == "__main__":
    main()
