"""What stands beside the pages of the site: their Markdown, llms.txt, and redirects."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from docs._site.staging import LINK, START, navigation

REDIRECTS = Path(__file__).resolve().parent / "redirects.toml"
TOCTREE = re.compile(r"\n```\{toctree\}\n.*?\n```\n", re.DOTALL)
REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={target}">
<link rel="canonical" href="{target}">
<p>This page has moved: <a href="{target}">{target}</a></p>
</html>
"""


def write_companions(staged: Path, site: Path) -> None:
    """Write the files that Sphinx does not."""
    for page in staged.rglob("*.md"):
        text = TOCTREE.sub("", page.read_text()).replace("\n{.cards}\n", "\n")
        (site / page.relative_to(staged)).write_text(text)
    shutil.copytree(staged / "images", site / "images")
    (site / "llms.txt").write_text(llms_txt(staged))
    write_redirects(site)


def llms_txt(staged: Path) -> str:
    """The index for language models, in the format of llmstxt.org."""
    title, summary = (staged / START).read_text().split("\n\n")[:2]
    lines = [title, "", "> " + " ".join(summary.split()), ""]
    for section in navigation():
        lines += [f"## {section.heading}", ""]
        for name in section.pages:
            lines.append(f"- [{title_of(staged / name)}]({name}): {opening_of(staged / name)}")
        lines.append("")
    return "\n".join(lines)


def title_of(page: Path) -> str:
    """The heading of a page."""
    return page.read_text().partition("\n")[0].removeprefix("# ")


def opening_of(page: Path) -> str:
    """The first sentence of a page, without links."""
    paragraphs = page.read_text().split("\n\n")
    prose = next(text for text in paragraphs[1:] if text[:1] not in "#`*|<!-{")
    sentence = re.split(r"(?<=[.:])\s", prose, maxsplit=1)[0]
    return " ".join(LINK.sub(r"\1", sentence).split()).rstrip(":")


def write_redirects(site: Path) -> None:
    """Write a page that redirects for each address that a page once had."""
    for old, new in tomllib.loads(REDIRECTS.read_text()).items():
        file = site / old
        assert not file.exists(), f"{old} is a page, so redirects.toml cannot redirect it."
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(REDIRECT.format(target="../" * old.count("/") + new))
