"""Where the official SDKs live: each in an environment which scripts/clients-env makes."""

import os
from pathlib import Path

import pytest

CLIENTS = Path(__file__).resolve().parent.parent.parent / ".clients"


def python(name: str) -> Path:
    """The interpreter which has the Python SDK: `sdk1_1`, `sdk1` (newest 1.x) or `sdk2`."""
    return made(name) / "bin" / "python"


def ts_modules() -> Path:
    """The node_modules folder which has the TypeScript SDK."""
    return made("ts") / "node_modules"


def node() -> Path:
    """A Node which is new enough for the TypeScript SDK."""
    return ts_modules() / ".bin" / "node"


def made(name: str) -> Path:
    """The environment; where it is missing the test is skipped, or fails if CLIENTS_REQUIRED."""
    folder = CLIENTS / name
    # The script leaves this file last; without it the environment may be half there.
    if (folder / "made-from").exists():
        return folder
    reason = f"{CLIENTS.name}/{name} is missing: run scripts/clients-env"
    if os.environ.get("CLIENTS_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)
