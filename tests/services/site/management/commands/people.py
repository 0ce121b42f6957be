"""Creates the users of the site, and prints the token of each as JSON."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import Permission, User
from django.core.management import BaseCommand

from django_mcp.contrib.tokens.models import PersonalAccessToken

CALLERS = ("ann", "ben", "cleo", "dan")
APPROVER = "eve"


class Command(BaseCommand):
    requires_system_checks = []  # Their warnings would be read with the tokens.

    def handle(self, *args: Any, **options: Any) -> None:
        people = [User.objects.create_user(name) for name in (*CALLERS, APPROVER)]
        # The permission that ``pay`` asks for.
        people[-1].user_permissions.add(Permission.objects.get(codename="change_group"))
        issue = PersonalAccessToken.objects.issue
        tokens = {person.get_username(): issue(person, "traffic")[1] for person in people}
        self.stdout.write(json.dumps(tokens))
