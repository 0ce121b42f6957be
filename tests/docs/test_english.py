"""The English of the pages: constructions that have to be read twice, and long sentences.

Each bound may only fall: who rewrites a sentence lowers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import FENCE, PAGES, ROOT
from tests.docs.generated import PART

PROSE = (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md")
MAX_WORDS = 35
SLACK = 3
"""How many a bound may be above the count, so that pages can be written side by side."""
BOUNDS = {"whose": 2, "in which": 2, "that of": 2, "long sentences": 2}
WHAT = re.compile(r"\bwhat (?:is|are|was|were|it|they|the|an?)\b", re.IGNORECASE)
MAX_WHAT = 0.98
"""Clauses of this kind in 1,000 words: twice as many as in the packages that this one is like."""

CONSTRUCTIONS = {
    "whose": re.compile(r"\bwhose\b", re.IGNORECASE),
    "in which": re.compile(
        r"\b(?:after|at|before|by|for|from|in|of|on|through|to|under|with) which\b", re.IGNORECASE
    ),
    "that of": re.compile(r"\b(?:that|those) of\b", re.IGNORECASE),
}
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[:;])\s+(?=[A-Z`*])")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def paragraphs(page: Path) -> Iterator[str]:
    """The prose of a page: neither code nor tables, headings and generated parts."""
    text = FENCE.sub("\n\n", PART.sub("\n\n", page.read_text()))
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", text):
        if block.lstrip()[:1] not in ("#", "|", "<", ""):
            yield " ".join(LINK.sub(r"\1", block).split())


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph; code counts as one word."""
    plain = re.sub(r"`[^`]*`", "`code`", paragraph)
    return SENTENCE_END.split(plain)


def weak(page: Path) -> Iterator[tuple[str, str]]:
    """The kind and the text of each sentence that should be rewritten."""
    for paragraph in paragraphs(page):
        for sentence in sentences(paragraph):
            for kind, pattern in CONSTRUCTIONS.items():
                for _ in pattern.finditer(sentence):
                    yield kind, sentence
            if len(sentence.split()) > MAX_WORDS:
                yield "long sentences", sentence


@pytest.mark.parametrize("kind", BOUNDS)
def test_sentences_to_be_read_twice_become_fewer(kind: str) -> None:
    listed = [
        f"{page.relative_to(ROOT)}: {sentence}"
        for page in PROSE
        for name, sentence in weak(page)
        if name == kind
    ]
    shown = "\n".join(listed)
    assert len(listed) <= BOUNDS[kind], f"Rewrite a sentence with {kind!r}:\n{shown}"
    assert len(listed) >= BOUNDS[kind] - SLACK, f"Lower the bound of {kind!r} to {len(listed)}."


def test_clauses_with_what_are_few() -> None:
    listed = [
        f"{page.relative_to(ROOT)}: {paragraph}"
        for page in PROSE
        for paragraph in paragraphs(page)
        for _ in WHAT.finditer(paragraph)
    ]
    words = sum(len(paragraph.split()) for page in PROSE for paragraph in paragraphs(page))
    shown = "\n".join(listed)
    assert len(listed) <= MAX_WHAT * words / 1000, f"Name the thing instead of 'what …':\n{shown}"


def test_weak_sentences_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page whose heading is not counted\n\nA caller whose token is that of a service.\n"
        "The way in which it works.\n\n```text\nwhose\n```\n\n* " + "word " * 36 + "end.\n"
    )
    kinds = [kind for kind, _ in weak(page)]
    assert kinds == ["whose", "that of", "in which", "long sentences"]
