"""Transcripts of conversations: their lines, and the strings in them that nobody can predict."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*/*.txt"))
CLIENT, SERVER, END = "> ", "< ", "= "
PLACEHOLDER = re.compile(r"<\w+>")


@dataclass(frozen=True)
class Line:
    """One message of a transcript, and its location."""

    side: str
    message: Any
    where: str


def read(path: Path) -> Iterator[Line]:
    """The messages of a transcript, after those of the transcript that it includes."""
    texts: list[tuple[str, int]] = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("{"):
            yield from read(path.parent / text.strip("{}"))
        elif text.startswith((CLIENT, SERVER)):
            texts.append((text, number))
        elif text == END.strip():
            texts.append((f"{END}null", number))
        elif text.startswith(" "):
            before, started = texts.pop()
            texts.append((f"{before} {text.strip()}", started))
        else:
            assert not text or text.startswith("#"), f"{path.name}:{number}: {text}"
    for text, number in texts:
        yield Line(text[:2], json.loads(text[2:]), f"{path.parent.name}/{path.name}:{number}")


@dataclass
class Placeholders:
    """The values of the placeholders of a transcript."""

    values: dict[str, str] = field(default_factory=dict)

    def fill(self, written: Any) -> Any:
        """Replace the known placeholders of an expected message."""
        if isinstance(written, dict):
            return {name: self.fill(member) for name, member in written.items()}
        if isinstance(written, list):
            return [self.fill(item) for item in written]
        return self.values.get(written, written) if isinstance(written, str) else written

    def learn(self, written: Any, received: Any) -> None:
        """Store the values of the unknown placeholders."""
        if isinstance(written, dict) and isinstance(received, dict):
            for name in written.keys() & received.keys():
                self.learn(written[name], received[name])
        elif isinstance(written, list) and isinstance(received, list):
            for one, other in zip(written, received, strict=False):
                self.learn(one, other)
        elif isinstance(received, str) and PLACEHOLDER.fullmatch(str(written)):
            self.values.setdefault(written, received)
