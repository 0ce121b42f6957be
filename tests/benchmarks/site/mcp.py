"""What the project offers: the tools of the cases, and as many further ones as a case asks for."""

import os

from django_mcp import registry
from tests.benchmarks.site.tools import offer

offer(registry.default, int(os.environ.get("BENCH_TOOLS", "0")))
