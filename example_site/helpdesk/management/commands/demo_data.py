"""``manage.py demo_data``: fill the site with data."""

from typing import Any

from django.contrib.auth.models import Permission, User
from django.core.management.base import BaseCommand
from django.db import transaction

from example_site.helpdesk import demo
from example_site.helpdesk.models import Customer

PERMISSIONS = [
    "view_customer",
    "view_ticket",
    "change_ticket",
    "view_comment",
    "add_comment",
    "add_refund",
]


class Command(BaseCommand):
    """Creates missing data, and does not change existing data."""

    help = "Makes demo data: users, customers, tickets and comments. Run again, it changes nothing."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        """Create missing users, and the helpdesk's data if there is none."""
        admin, agent = _admin(), _agent()
        if Customer.objects.exists():
            self.stdout.write("The demo data is there already.")
            return
        demo.create([admin, agent])
        self.stdout.write("Made demo data. Log in as admin (password admin) or agent (agent).")


def _admin() -> User:
    """The superuser; the password of an existing one is not changed."""
    found = User.objects.filter(username="admin").first()
    return found or User.objects.create_superuser("admin", "admin@site.example", "admin")


def _agent() -> User:
    """A helpdesk agent: may answer and close tickets, and request refunds."""
    found = User.objects.filter(username="agent").first()
    return found or _new_agent()


def _new_agent() -> User:
    agent = User.objects.create_user("agent", "agent@site.example", "agent", is_staff=True)
    agent.user_permissions.set(
        Permission.objects.filter(content_type__app_label="helpdesk", codename__in=PERMISSIONS)
    )
    return agent
