"""What all tests share: the fixtures which users get, and where the official schemas are."""

import os
from pathlib import Path

pytest_plugins = ["django_mcp.testing.plugin"]

SCHEMAS = Path(__file__).resolve().parents[2] / "shared" / "spec" / "schema"

if SCHEMAS.is_dir():
    os.environ.setdefault("DJANGO_MCP_SPEC_SCHEMAS", str(SCHEMAS))
