"""The tutorial, executed in an empty folder with the real client at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, blocks
from tests.docs.reader import Reader


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with ExitStack() as stack:
        yield Reader(tmp_path, stack)


# It starts some 20 processes.
@pytest.mark.nightly
def test_tutorial_commands_produce_the_documented_output(reader: Reader) -> None:
    for block in blocks(ROOT / "docs" / "tutorial.md"):
        by_label = {
            "python": reader.write,
            "html": reader.write_template,
            "console": reader.enter,
        }
        by_label[block.label](block)
