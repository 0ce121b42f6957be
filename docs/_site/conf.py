"""The configuration of Sphinx."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

from pygments.lexers.special import TextLexer
from pygments.lexers.templates import HtmlDjangoLexer
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from docs._site.api import with_objects  # noqa: E402  # Sphinx runs this file on its own.
from docs._site.inventories import write_inventories  # noqa: E402

project = "django_mcp"
author = "django_mcp contributors"
project_copyright = author
version = version_of("django-mcp-channels")
release = version

extensions = ["myst_parser", "sphinx.ext.intersphinx", "sphinx_copybutton"]
exclude_patterns: list[str] = []

myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 4
python_maximum_signature_line_length = 72
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# Inventories in the repository: a build is the same with and without a network.
intersphinx_mapping = write_inventories(HERE.parents[1] / "build" / "inventories")

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b6b4f",
        "color-brand-content": "#0b6b4f",
        "color-brand-visited": "#4b5f9e",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5fd3a8",
        "color-brand-content": "#5fd3a8",
        "color-brand-visited": "#a9b6ee",
    },
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1|[\w.-]*\.?example)\b"]
linkcheck_timeout = 20
linkcheck_retries = 2


def setup(app: Sphinx) -> None:
    """Add what the configuration cannot say."""
    app.add_lexer("caddyfile", TextLexer)
    app.add_lexer("html", HtmlDjangoLexer)  # The examples are templates.
    app.connect("source-read", _read)


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = with_objects(source[0])
