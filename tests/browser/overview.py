"""The picture of the README: python -m tests.browser.overview

A call of an agent, the page that approves it, and the rows of the admin, all of the example site.
"""

from __future__ import annotations

import base64
import html
import tempfile
from pathlib import Path

from tests.browser import pictures
from tests.browser.agent import call, issued_token
from tests.browser.chromium import Visitor, chromium
from tests.browser.screenshots import FOLDER
from tests.running_site import running_site

QUESTION = "The printer of ticket 17 was charged twice. Please refund it."
ARGUMENTS = {"number": 17, "amount": "49.90", "reason": "The printer was charged twice."}
WIDTH = 1400
ADMIN = (1000, 510)
"""The size of the window for the rows: so many of them fit beside the page of the approval."""
PAGE = """<!doctype html>
<meta charset="utf-8">
<style>
body {{ background: #f4f6f8; font: 17px/1.45 system-ui, sans-serif; margin: 0; }}
main {{ display: grid; gap: 20px; grid-template-columns: 780px 1fr; padding: 20px; }}
.second {{ grid-column: 2; grid-row: 1 / 3; }}
h2 {{ font-size: 20px; margin: 0 0 14px; }}
section {{ background: #fff; border: 1px solid #d4dae0; border-radius: 10px; padding: 20px; }}
p, pre {{ border-radius: 12px; margin: 0 0 10px; padding: 10px 16px; width: fit-content; }}
p {{ background: #eef2f6; }}
pre {{ border: 1px solid #d4dae0; font-size: 15px; }}
.user {{ background: #205493; color: #fff; margin-left: auto; }}
p:last-child {{ margin: 0; }}
img {{ border: 1px solid #d4dae0; border-radius: 6px; box-sizing: border-box; display: block;
       width: 100%; }}
.second img {{ border: 0; }}
</style>
<main>
<section><h2>1. An assistant calls a tool</h2>
<p class="user">{question}</p><pre>{call}</pre><p>{answer}</p></section>
<section class="second"><h2>2. A person approves it</h2><img src="{approval}"></section>
<section><h2>3. The admin shows each call</h2><img src="{rows}"></section>
</main>
"""


def take(folder: Path) -> None:
    """Write ``overview.png`` into a folder."""
    with (
        tempfile.TemporaryDirectory() as name,
        running_site(demo_data=True) as site,
        chromium(Path(name) / "profile") as driver,
    ):
        own = Path(name)
        visitor = Visitor(driver, site, own)
        token = issued_token(site, own / "token")
        for text in ("printer", "invoice", "late"):
            call(site, token, "search_tickets", text=text)
        call(site, token, "check_answer_times")
        answer = call(site, token, "refund", **ARGUMENTS)
        pictures.prepare(visitor)
        visitor.log_in("admin", "admin")
        approval, rows = photographs(visitor, answer)
        shown = ",\n  ".join(f"{key}={value!r}" for key, value in ARGUMENTS.items())
        page = own / "overview.html"
        page.write_text(
            PAGE.format(
                question=html.escape(QUESTION),
                call=html.escape(f"refund(\n  {shown},\n)"),
                answer=html.escape(answer.partition(" They can")[0]),
                approval=approval,
                rows=rows,
            )
        )
        driver.set_window_size(WIDTH, 1200)
        driver.get(page.as_uri())
        pictures.save(visitor, folder / "overview.png", "main")


def photographs(visitor: Visitor, answer: str) -> tuple[str, str]:
    """The page of the approval, and the rows of the call log, as data URLs."""
    key = answer.partition('id="')[2].partition('"')[0]
    visitor.driver.set_window_size(640, 1200)
    visitor.open(f"/approvals/{key}/")
    approval = visitor.one("main").screenshot_as_base64
    visitor.driver.set_window_size(*ADMIN)
    visitor.open("/admin/django_mcp_calls/call/")
    visitor.run(REMOVE_CONTROLS)
    rows = visitor.driver.get_screenshot_as_base64()
    return data_url(approval), data_url(rows)


REMOVE_CONTROLS = """
const controls = ".mcp-filters, #nav-sidebar, #toggle-nav-sidebar, .actions, .xfull";
document.querySelectorAll(controls).forEach(each => each.remove());
"""


def data_url(image: str) -> str:
    """The URL of an image in base64."""
    assert base64.b64decode(image)
    return f"data:image/png;base64,{image}"


if __name__ == "__main__":
    take(FOLDER)
