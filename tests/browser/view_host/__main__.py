"""Shows the view of a tool of a site: python -m tests.browser.view_host TOOL ARGUMENTS USER

It prints the URL of its page, and ends with a signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import django


def main(tool: str, arguments: str, user: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")
    django.setup()
    from django_mcp import registry
    from django_mcp.management import calls
    from tests.browser.view_host.requests import SiteRequests
    from tests.browser.view_host.servers import Preview, running

    requests = SiteRequests(registry.default, calls.principal("command", user or None, ()))
    preview = Preview(requests, tool, json.loads(arguments))
    with running(preview):
        print(preview.url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
