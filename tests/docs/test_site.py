"""The site of the documentation: built, linked, and with an answer for a new user in few clicks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from docs._site import companions, links, staging
from tests.docs.examples import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site: that of .ci/run, else one of its own."""
    if built := os.environ.get("DOCS_SITE"):
        return ROOT / built
    folder = tmp_path_factory.mktemp("docs") / "site"
    build = [sys.executable, "-m", "docs._site", str(folder)]
    result = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_every_page_has_its_markdown_and_is_in_the_index_for_models(site: Path) -> None:
    index = (site / "llms.txt").read_text()
    assert index.startswith("# django_mcp\n\n> ")
    for name, source in staging.pages():
        html = (site / name).with_suffix(".html")
        assert html.exists(), source
        assert (site / name).read_text().startswith("# "), source
    top = [page for section in staging.navigation() for page in section.pages]
    assert [page for page in top if f"]({page}): " not in index] == []


def test_every_page_names_the_version(site: Path) -> None:
    title = f"django_mcp {version('django-mcp-channels')}"
    pages = [site / name for name, _ in staging.pages()]
    assert [page for page in pages if title not in page.with_suffix(".html").read_text()] == []


def test_public_names_are_objects_of_the_search(site: Path) -> None:
    searched = (site / "searchindex.js").read_text()
    objects = json.loads(searched.removeprefix("Search.setIndex(").removesuffix(")"))["objects"]
    names = {entry[4] for entry in objects["django_mcp"]}
    assert {"Server", "tool", "Frame", "ToolError"} <= names


def test_old_address_redirects_to_the_page(site: Path) -> None:
    assert 'url=reference/settings.html"' in (site / "settings.html").read_text()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Let Claude in", "claude mcp add"),
        ("Offer a model, read-only", "a toolset offers “list” and “get” only"),
        ("Run a long job", "task_support"),
        ("Test a tool", "call_tool"),
        ("Run it in production", "CHANNEL_LAYERS"),
    ],
)
def test_question_is_answered_one_click_from_the_start_page(
    question: str, answer: str, site: Path
) -> None:
    link = re.search(rf'href="([^"#]+)[^"]*"><span[^>]*>{re.escape(question)}<', text_of(site))
    assert link is not None, f"docs/index.md has no link with the words {question!r}"
    assert answer in re.sub(r"<[^>]+>", "", text_of(site, link[1]))


def text_of(site: Path, page: str = "index.html") -> str:
    """The HTML of a page without the navigation around it."""
    html = (site / page).read_text()
    return html.partition('<article role="main"')[2].partition("</article>")[0]


def test_each_page_is_listed_in_one_section_of_the_index() -> None:
    sections = [*staging.navigation()]
    links = [link[2] for each in sections for link in staging.LINK.finditer(each.text)]
    assert [link for link in {*links} if links.count(link) > 1] == []


def test_pages_for_contributors_are_in_one_section_after_those_for_users() -> None:
    *for_users, last = staging.navigation()
    assert last.heading == "Contributing"
    assert {"contributing.md", "design.md", "benchmarks.md", "attempts.md"} <= {*last.pages}
    folders = {page.partition("/")[0] for section in for_users for page in section.pages}
    assert "design" not in folders


def test_page_outside_of_the_index_is_an_error_with_a_remedy() -> None:
    with pytest.raises(staging.UnlistedPage, match=r"List how-to/new\.md in a section of docs/"):
        staging.check_listed(["index.md", "how-to/new.md"], staging.navigation())


def test_page_in_the_folder_of_a_listed_page_needs_no_line_in_the_index() -> None:
    staging.check_listed(["reference/api/new.md"], staging.navigation())
    assert staging.children("reference/api.md", ["reference/api/new.md"]) == [
        "reference/api/new.md"
    ]


def test_link_to_a_missing_page_or_anchor_is_dead(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">b</a><a href="c.html">c</a>')
    (tmp_path / "b.html").write_text('<p id="here"><a href="https://example.com/">e</a>')
    assert links.dead_links(tmp_path) == ["a.html: b.html#there", "a.html: c.html"]


def test_redirect_from_a_page_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "api.html").touch()
    with pytest.raises(AssertionError, match=r"api\.html is a page"):
        companions.write_redirects(tmp_path)
