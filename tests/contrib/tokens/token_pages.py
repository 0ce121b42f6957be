"""The page of a user's tokens."""

from __future__ import annotations

import re
from typing import Any

TOKEN = re.compile(r"djmcp_\w{49}")
PAGE = "/tokens/"


def fields(**changed: Any) -> dict[str, Any]:
    return {"name": "laptop", "lifetime": "30", **changed}
