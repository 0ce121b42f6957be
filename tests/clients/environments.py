"""Where the official SDKs live: each in an environment which scripts/clients-env makes."""

from pathlib import Path

CLIENTS = Path(__file__).resolve().parent.parent.parent / ".clients"
REMEDY = "is missing: run scripts/clients-env"


def python(name: str) -> Path | None:
    """The interpreter which has the Python SDK: `sdk1` (1.x) or `sdk2` (2.x)."""
    return _made(name, "bin/python")


def ts_modules() -> Path | None:
    """The node_modules folder which has the TypeScript SDK."""
    return _made("ts", "node_modules")


def node() -> Path | None:
    """A Node which is new enough for the TypeScript SDK."""
    return _made("ts", "node_modules/.bin/node")


def why_missing(name: str) -> str:
    """The reason to give when a test is skipped; `name` is `sdk1`, `sdk2` or `ts`."""
    return f"{CLIENTS.name}/{name} {REMEDY}"


def _made(name: str, path: str) -> Path | None:
    # The script leaves this file last; without it the environment may be half there.
    return CLIENTS / name / path if (CLIENTS / name / "made-from").exists() else None
