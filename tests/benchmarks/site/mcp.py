"""Registers the tools of the cases, and the number of further tools that a case requests."""

import os

from django_mcp import registry
from tests.benchmarks.site.tools import register

registry.default.page_size = int(os.environ.get("BENCH_PAGE_SIZE", "50"))
register(
    registry.default,
    int(os.environ.get("BENCH_TOOLS", "0")),
    rows_by=os.environ.get("BENCH_ROWS", "values"),
    reads=os.environ.get("BENCH_READS", "sync"),
)
