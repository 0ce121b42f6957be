"""Reading through the tools of the admin."""

from __future__ import annotations

import json
from typing import Any

TICKET = "helpdesk.Ticket"


def read(result: Any) -> Any:
    return json.loads(result.assert_ok().text)
