"""Pictures of pages, as small files."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

from PIL import Image

from tests.browser.chromium import Visitor

BOX = """
const [first, last] = Array.from(arguments, each => document.querySelector(each));
const start = first.getBoundingClientRect();
const end = last.getBoundingClientRect();
return {
  x: start.left + scrollX, y: start.top + scrollY,
  width: start.width, height: end.bottom - start.top, scale: 1,
};
"""


def prepare(visitor: Visitor) -> None:
    """Show pages in light colours, which change at once, and without scrollbars."""
    visitor.show_theme("light")
    visitor.speed_up()
    visitor.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})


def save(visitor: Visitor, file: Path, first: str, last: str = "") -> None:
    """Save what the page shows in an element, or from its top to the end of a ``last`` one."""
    box = visitor.run(BOX, first, last or first)
    options = {"format": "png", "captureBeyondViewport": True, "clip": box}
    taken = visitor.driver.execute_cdp_cmd("Page.captureScreenshot", options)
    picture = Image.open(BytesIO(base64.b64decode(taken["data"])))
    save_small(picture, file)


def save_small(picture: Image.Image, file: Path) -> None:
    """Save a picture of a page, for which 256 colours are enough."""
    method = Image.Quantize.MAXCOVERAGE  # It keeps colours that few pixels have.
    few = picture.convert("RGB").quantize(256, method, kmeans=4, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
