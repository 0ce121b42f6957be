"""Builds the site: ``python -m docs._site [FOLDER]``, which is ``build/site`` by default.

``--external`` also requests every link to another site; it needs a network.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from docs._site.companions import write_companions
from docs._site.links import dead_links
from docs._site.staging import ROOT, UnlistedPage, stage

HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build"


def main() -> None:
    """Build, and exit with an error for any warning or dead link."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Build the site.")
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD / "site")
    parser.add_argument(
        "--external", action="store_true", help="request every link to another site"
    )
    options = parser.parse_args()
    staged = BUILD / "site-source"
    try:
        stage(staged)
    except UnlistedPage as error:
        sys.exit(str(error))
    shutil.rmtree(options.folder, ignore_errors=True)
    run_sphinx("html", staged, options.folder)
    write_companions(staged, options.folder)
    dead = dead_links(options.folder)
    for link in dead:
        print(f"Dead link: {link}", file=sys.stderr)
    if dead:
        sys.exit(1)
    if options.external:
        run_sphinx("linkcheck", staged, BUILD / "site-links")
    print(f"The site is in {options.folder}: open {options.folder / 'index.html'}")


def run_sphinx(builder: str, source: Path, target: Path) -> None:
    """Run one builder; a warning is an error."""
    state = BUILD / f"site-state-{builder}"
    shutil.rmtree(state, ignore_errors=True)
    arguments = ["-b", builder, "-c", str(HERE), "-d", str(state), "-W", "--keep-going", "-q"]
    status = build_main([*arguments, str(source), str(target)])
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main()
