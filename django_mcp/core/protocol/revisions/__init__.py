"""One module per revision, with its differences from the previous one.

To add a revision, write its module and append its value to ``REVISIONS``.
"""

from django_mcp.core.protocol.revisions.base import Feature, Revision, Statefulness, Structured
from django_mcp.core.protocol.revisions.v2024_11_05 import V2024_11_05
from django_mcp.core.protocol.revisions.v2025_03_26 import V2025_03_26
from django_mcp.core.protocol.revisions.v2025_06_18 import V2025_06_18
from django_mcp.core.protocol.revisions.v2025_11_25 import V2025_11_25
from django_mcp.core.protocol.revisions.v2026_07_28 import V2026_07_28

REVISIONS = (V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28)
"""Every revision, oldest first."""

BY_VERSION = {revision.version: revision for revision in REVISIONS}
NEWEST = REVISIONS[-1]

__all__ = ["Feature", "Revision", "Statefulness", "Structured"]
