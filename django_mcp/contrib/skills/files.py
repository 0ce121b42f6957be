"""The files of a skill, with the digests of their bytes.

A file is found by its URI among those that were listed: no path is made from input of a client. So
there is nothing to traverse, and no second spelling of a name. Files that differ between the
machines of a site are left out: hidden files, caches and backups of editors. Symbolic links are not
followed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from mimetypes import MimeTypes
from pathlib import Path
from typing import NamedTuple

from django_mcp.contrib.skills.front_matter import SkillError

MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
"""Of one skill (SEP-2640): hosts refuse more."""
MAX_ENTRIES = 20_000
"""Files and folders of one folder of skills, beyond which it is none."""
MAX_CACHED = 50_000
"""Digests that a process keeps."""

IGNORED = re.compile(
    r"\..*|__pycache__|.*\.py[co]|.*~|#.*#|.*\.(?:bak|orig|rej|sw[a-p]|tmp)|Thumbs\.db|desktop\.ini",
    re.DOTALL,
)
"""Names of hidden files, caches, and leftovers of editors and systems."""

TYPES = MimeTypes()
"""Those that Python knows, and not the machine: all workers answer alike."""
for _type, _extensions in {
    "text/markdown": [".md"],
    "application/yaml": [".yaml", ".yml"],
    "application/toml": [".toml"],
    "text/x-python": [".py"],
}.items():
    for _extension in _extensions:
        TYPES.add_type(_type, _extension)


class File(NamedTuple):
    """A file, as its folder lists it."""

    path: Path
    size: int
    modified: int
    """In nanoseconds."""

    @property
    def mime_type(self) -> str | None:
        """Its type by its name, as far as Python knows it."""
        return TYPES.guess_type(self.path.name)[0]

    @property
    def digest(self) -> str:
        """The hash of its bytes; it is computed again when the file has changed."""
        return _digest(self)

    def read(self) -> bytes:
        """Return its bytes.

        Raises OSError, also where a symbolic link has taken its place, or where it has grown.
        """
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, "rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise OSError(f"{self.path} has more than {MAX_BYTES} bytes")
        return data


@lru_cache(maxsize=MAX_CACHED)
def _digest(file: File) -> str:
    return f"sha256:{hashlib.sha256(file.read()).hexdigest()}"


@dataclass(slots=True)
class Listing:
    """The files in a folder, by the path below it, in order."""

    files: dict[str, File] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Files that are not served although somebody may expect it, and why."""


def listing(folder: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> Listing:
    """List a folder and those below it; raises SkillError beyond the limits."""
    listed = Listing()
    size = 0
    for relative, entry in _walk(folder):
        if entry.is_dir(follow_symlinks=False):
            listed.folders.append(relative)
        else:
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                is_link = stat.S_ISLNK(status.st_mode)
                listed.left_out[relative] = "a symbolic link" if is_link else "no regular file"
                continue
            listed.files[relative] = File(Path(entry.path), status.st_size, status.st_mtime_ns)
            size += status.st_size
        if len(listed.files) > max_files or len(listed.folders) > max_files:
            raise SkillError("E004", f"it has more than {max_files} files")
        if size > max_bytes:
            raise SkillError("E004", f"its files have more than {max_bytes:,} bytes")
    return listed


def _walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the paths below a folder: parents before their children, by name."""
    waiting = [(folder, "")]
    while waiting:
        parent, prefix = waiting.pop()
        with os.scandir(parent) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        below = []
        for entry in ordered:
            if IGNORED.fullmatch(entry.name) or not _is_text(entry.name):
                continue
            relative = prefix + entry.name
            yield relative, entry
            if entry.is_dir(follow_symlinks=False):
                below.append((Path(entry.path), f"{relative}/"))
        waiting.extend(reversed(below))


def _is_text(name: str) -> bool:
    """Whether a name can be part of a URI: it is UTF-8 on the disk."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
