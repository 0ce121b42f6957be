"""The environments of the official SDKs, which scripts/clients-env creates."""

import os
from pathlib import Path

import pytest

CLIENTS = Path(__file__).resolve().parent.parent.parent / ".clients"


def python(name: str) -> Path:
    """Return the interpreter with the Python SDK: `sdk1_1`, `sdk1` (newest 1.x) or `sdk2`."""
    return made(name) / "bin" / "python"


def ts_modules() -> Path:
    """Return the node_modules folder with the TypeScript SDK."""
    return made("ts") / "node_modules"


def node() -> Path:
    """Return a Node that is recent enough for the TypeScript SDK."""
    return ts_modules() / ".bin" / "node"


def made(name: str) -> Path:
    """Return the environment; without it, skip the test, or fail if CLIENTS_REQUIRED is set."""
    folder = CLIENTS / name
    # The script writes this file last; without it the environment may be incomplete.
    if (folder / "made-from").exists():
        return folder
    reason = f"{CLIENTS.name}/{name} is missing: run scripts/clients-env"
    if os.environ.get("CLIENTS_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)
