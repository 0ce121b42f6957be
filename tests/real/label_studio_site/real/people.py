"""Three users: two of one organization, and one of another, with their projects."""

from organizations.models import Organization, OrganizationMember
from projects.models import Project
from users.models import User


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
    return users
