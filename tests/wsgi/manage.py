"""The management commands of the site for WSGI servers."""

from __future__ import annotations

import sys

from django.core.management import execute_from_command_line

import tests.wsgi.one_site  # noqa: F401 - it configures Django

if __name__ == "__main__":
    execute_from_command_line(["manage.py", *sys.argv[1:]])
