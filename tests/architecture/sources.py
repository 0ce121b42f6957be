"""The modules of the package."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "django_mcp"


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))
