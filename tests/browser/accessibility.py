"""What axe finds on a page, in both themes and on two widths."""

from __future__ import annotations

from typing import Any

from tests.browser.chromium import Visitor
from tests.clients.environments import ts_modules

RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run().then(result => done(result.violations.map(each => each.id + ": " + each.nodes[0].html)));
"""


THEMES = ("light", "dark")
WIDTHS = (1200, 390)


def problems(visitor: Visitor) -> list[Any]:
    """What axe finds on the page, and what is wider than the screen, in each look of the page."""
    axe = (ts_modules() / "axe-core" / "axe.min.js").read_text()
    found: list[Any] = []
    for theme in THEMES:
        visitor.show_theme(theme)
        for width in WIDTHS:
            visitor.show_width(width)
            visitor.run(axe)
            violations = visitor.driver.execute_async_script(RUN_AXE)
            found += [(theme, width, each) for each in violations]
            if visitor.overflow():
                found.append((theme, width, "is wider than the screen"))
    return found
