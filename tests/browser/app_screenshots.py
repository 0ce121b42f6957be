"""The pictures of the helpdesk's views: python -m tests.browser.app_screenshots [FOLDER]

Each shows a view in the host of the tests twice: light and on a desktop, dark and on a phone
of 390 pixels. With a folder, all four looks of each view are kept there, to look at.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw
from selenium.webdriver.common.by import By

from tests.browser.app_host import AppHost
from tests.browser.chromium import chromium
from tests.processes import ROOT, kill_group, spawn
from tests.running_site import RunningSite, running_site
from tests.waiting import wait_until

FOLDER = ROOT / "docs" / "images"
THEMES = ("light", "dark")
WIDTHS = ("desktop", "phone")
WINDOW = (1240, 1400)
GAP = 24
RADIUS = 12
SMOOTH = 4
"""How much larger the corners are drawn before they are reduced."""
BACKGROUND = "#e4e2db"
URL = re.compile(r"http://127\.0\.0\.1:\d+/\S+/")


class Scene(NamedTuple):
    """A view with a call, for a picture."""

    name: str
    tool: str
    arguments: Mapping[str, Any]
    user: str
    """Empty for an anonymous caller."""
    shown: str
    """A text that the view shows when it is complete."""


SCENES: Sequence[Scene] = (
    Scene("app-ticket", "show_ticket", {"number": 184}, "admin", "Add reply"),
    Scene(
        "app-form",
        "ticket_form",
        {"subject": "No heating", "description": "The radiators of the reading room stay cold."},
        "admin",
        "Priority",
    ),
    Scene(
        "app-approval",
        "refund",
        {"number": 184, "amount": "49.90", "reason": "The printer was charged twice in March."},
        "agent",
        "49.90",
    ),
    Scene("app-table", "list_customers", {"limit": 8}, "agent", "Alder Street Bakery"),
)


@contextmanager
def preview(site: RunningSite, scene: Scene, folder: Path) -> Iterator[str]:
    """Run the host within the block; return the URL of its page."""
    log_file = folder / f"{scene.name}.log"
    log_file.unlink(missing_ok=True)  # It would have the URL of an earlier run.
    command = [str(site.python), "-m", "tests.browser.view_host", scene.tool]
    command += [json.dumps(scene.arguments), scene.user]
    process = spawn(command, log_file, ROOT, env=site.environment)
    try:
        wait_until(
            lambda: URL.search(log_file.read_text()) or process.poll() is not None,
            "the host listens",
        )
        match = URL.search(log_file.read_text())
        assert match is not None, log_file.read_text()
        yield match[0]
    finally:
        kill_group(process)


def take(folder: Path, kept: Path) -> None:
    """Write the pictures of the documentation into ``folder``, and one of each look to ``kept``."""
    with (
        running_site(demo_data=True) as site,
        tempfile.TemporaryDirectory() as profile,
        chromium(Path(profile)) as driver,
    ):
        for scene in SCENES:
            driver.set_window_size(*WINDOW)
            with preview(site, scene, kept) as url:
                host = AppHost(driver, url)
                host.wait_for_state("open")
                for theme in THEMES:
                    for width in WIDTHS:
                        _look(host, scene, theme, width)
                        file = kept / f"{scene.name}-{theme}-{width}.png"
                        assert driver.find_element(By.ID, "container").screenshot(str(file))
                assert host.blocked() == []
                assert host.console_errors() == []
            pair = [kept / f"{scene.name}-{look}.png" for look in ("light-desktop", "dark-phone")]
            _beside_each_other(pair).save(folder / f"{scene.name}.png", optimize=True)


def _look(host: AppHost, scene: Scene, theme: str, width: str) -> None:
    """Show the view in a theme at a width."""
    host.choose("theme", theme)
    host.choose("width", width)
    host.wait_for_text(f":root[data-theme={theme}] body", scene.shown)
    host.wait_for_steady_size()


def _beside_each_other(files: Sequence[Path]) -> Image.Image:
    """Return the pictures in a row, with round corners."""
    pictures = [Image.open(file).convert("RGB") for file in files]
    width = sum(picture.width for picture in pictures) + GAP * (len(pictures) + 1)
    height = max(picture.height for picture in pictures) + 2 * GAP
    row = Image.new("RGB", (width, height), BACKGROUND)
    left = GAP
    for picture in pictures:
        row.paste(picture, (left, GAP), _rounded(picture.size))
        left += picture.width + GAP
    return row


def _rounded(size: tuple[int, int]) -> Image.Image:
    """Return a mask with round and smooth corners."""
    large = (size[0] * SMOOTH, size[1] * SMOOTH)
    mask = Image.new("L", large, 0)
    box = (0, 0, large[0] - 1, large[1] - 1)
    ImageDraw.Draw(mask).rounded_rectangle(box, RADIUS * SMOOTH, fill=255)
    return mask.resize(size, Image.Resampling.LANCZOS)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(exist_ok=True, parents=True)
        take(FOLDER, Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as kept:
            take(FOLDER, Path(kept))
