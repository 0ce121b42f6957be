"""A fuzz run: python -m tests.fuzz [--seconds 120] [--seed 1] [target ...]

Plays the corpus, then generated inputs until the time is over. For a failure it prints the
smallest input that was found, as a line for a file of tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import django
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

FOLDER = tempfile.TemporaryDirectory()
"""Of the database, which has no rows at first; it is deleted at the end."""

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")
os.environ["EXAMPLE_DATABASE"] = f"{FOLDER.name}/fuzz.sqlite3"
django.setup()

from django.core.management import call_command  # noqa: E402 - Django is set up first.
from django.test import override_settings  # noqa: E402

from tests.fuzz import corpus  # noqa: E402
from tests.fuzz.inputs import STRATEGIES  # noqa: E402
from tests.fuzz.site import SETTINGS  # noqa: E402
from tests.fuzz.targets import Input, Site  # noqa: E402

EXAMPLES = 50
"""The inputs for a target before it is the turn of the next one."""
SHRINKING = 60.0
"""Seconds in which a smaller input is searched for."""
REPETITIONS = 3
"""How often the corpus is played again for the growth of memory."""
MAX_GROWTH = (5_000, 20_000_000)
"""Blocks and bytes by which the memory may grow meanwhile."""
STATISTICS = Path("/proc/self/statm")


class Run:
    """One site, and how many inputs it has had."""

    def __init__(self, runner: asyncio.Runner, site: Site) -> None:
        self._runner = runner
        self._site = site
        self.played: Counter[str] = Counter()

    def play(self, given: Input) -> None:
        """Play an input; raises Fault."""
        self.played[given["target"]] += 1
        self._runner.run(self._site.play(given))

    def play_all(self, known: Sequence[Input]) -> None:
        """Play the corpus, and print the input that fails; raises Fault."""
        for each in known:
            try:
                self.play(each)
            except BaseException:
                print(f"A fault, of the corpus:\n{json.dumps(each)}\n", flush=True)
                raise

    def generate(self, target: str, seed: int, ends: float) -> None:
        """Play generated inputs, and find a small one of those that fail; raises Fault."""
        failed_at: list[float] = []

        @seeded(seed)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[*HealthCheck],
            print_blob=False,
        )
        @given(STRATEGIES[target])
        def play(given: Input) -> None:
            now = time.monotonic()
            if now > (failed_at[0] + SHRINKING if failed_at else ends):
                return
            try:
                self.play(given)
            except Exception:
                failed_at.append(now)
                failed[:] = [given]
                raise

        failed: list[Input] = []
        try:
            play()
        except BaseException:
            if failed:
                print(f"A fault; as a line of the corpus:\n{json.dumps(failed[0])}\n", flush=True)
            raise


def memory() -> tuple[int, int]:
    """Blocks of Python objects, and bytes of this process (0 where it cannot be read)."""
    gc.collect()
    pages = STATISTICS.read_text().split()[1] if STATISTICS.exists() else "0"
    return sys.getallocatedblocks(), int(pages) * resource.getpagesize()


def growth(play: Callable[[], None]) -> tuple[int, int]:
    """What is kept, as in ``memory``, of what is done again and again."""
    play()
    before = memory()
    for _ in range(REPETITIONS):
        play()
    after = memory()
    return after[0] - before[0], after[1] - before[1]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz")
    parser.add_argument("--seconds", type=float, default=120, help="for generated inputs")
    parser.add_argument("--seed", type=int, help="repeats the inputs of a run")
    parser.add_argument("targets", nargs="*", metavar="target", help=", ".join(STRATEGIES))
    options = parser.parse_args(arguments)
    if unknown := {*options.targets} - {*STRATEGIES}:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    targets = options.targets or [*STRATEGIES]
    seed = random.randrange(10**6) if options.seed is None else options.seed
    for name in ("", "django", "django_mcp", "django_mcp.contrib.call_log"):
        logging.getLogger(name).handlers.clear()  # Faults are printed.
        logging.getLogger(name).propagate = True
    print(f"Seed {seed}", flush=True)
    call_command("migrate", verbosity=0)
    with override_settings(DJANGO_MCP=SETTINGS), asyncio.Runner() as runner:
        site = runner.run(Site().__aenter__())
        gc.freeze()
        run = Run(runner, site)
        known = [each for _, each in corpus.load() if each["target"] in targets]
        run.play_all(known)
        ends = time.monotonic() + options.seconds
        while time.monotonic() < ends:
            for target in targets:
                run.generate(target, seed, ends)
                seed += 1
        print("Inputs:", ", ".join(f"{name} {count}" for name, count in run.played.items()))
        grown = growth(partial(run.play_all, known))
        count = REPETITIONS * len(known)
        print(f"Memory kept of {count} inputs: {grown[0]} blocks, {grown[1] / 1e6:.1f} MB")
        runner.run(site.__aexit__(None, None, None))
    if any(found > most for found, most in zip(grown, MAX_GROWTH, strict=True)):
        print(f"That is more than {MAX_GROWTH[0]} blocks or {MAX_GROWTH[1] / 1e6:.0f} MB.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
