# shop/tests.py
from django.contrib.auth import get_user_model
from django.test import TestCase

from django_mcp.testing import SyncClient


def skills_of(client):
    return {entry["frontmatter"]["name"] for entry in client.request("skills/list", {})["skills"]}


class SkillTests(TestCase):
    def test_returns_are_for_staff(self):
        with SyncClient() as client:
            self.assertNotIn("returns", skills_of(client))
        ann = get_user_model().objects.create_user("ann", is_staff=True)
        with SyncClient(user=ann) as client:
            self.assertIn("returns", skills_of(client))
            terms = client.request("resources/read", {"uri": "skill://returns/reference/terms.md"})
            self.assertIn("30 days", terms["contents"][0]["text"])
