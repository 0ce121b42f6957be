"""Three users: two of one organization, and one of another, with their projects."""

from dataclasses import dataclass, replace

from organizations.models import Organization, OrganizationMember
from projects.models import Project
from rest_framework.test import APIClient
from users.models import User

from django_mcp.testing import SyncClient
from django_mcp.testing import client as testing

# The callers of the site's own authenticator, by whose scheme views decide.
_of_test = testing._principal
testing._principal = lambda user, scopes: replace(_of_test(user, scopes), scheme="django_session")


@dataclass(frozen=True)
class Person:
    name: str
    user: User

    def mcp(self):
        return SyncClient(user=self.user, raise_exceptions=False)

    def api(self):
        client = APIClient(raise_request_exception=False)
        client.force_authenticate(self.user)
        return client

    def value_of(self, name, schema, chance):
        """Return a value of the data below for an argument, or None for any other one."""
        return None


def create():
    users = [User.objects.create_user(f"{name}@example.org", "x") for name in ("ann", "bob", "eve")]
    for owner, members in ((users[0], users[:2]), (users[2], users[2:])):
        organization = Organization.create_organization(created_by=owner, title=owner.email)
        for user in members:
            OrganizationMember.objects.get_or_create(user=user, organization=organization)
            user.active_organization = organization
            user.save()
        for number in range(3):
            Project.objects.create(
                title=f"Project {number}", created_by=owner, organization=organization
            )
    return [Person(user.email, user) for user in users]
