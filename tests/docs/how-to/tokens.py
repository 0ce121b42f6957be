# shop/tests.py
from django.contrib.auth import get_user_model
from django.test import TestCase

from django_mcp import Frame, tool
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.testing import SyncClient


@tool(read_only=True)
def whoami(frame: Frame) -> str:
    """Return the user of the token."""
    return f"{frame.user.username}, {frame.auth.claims['token_name']}"


class TokenTests(TestCase):
    def test_token_identifies_its_user(self):
        user = get_user_model().objects.create_user("ann")
        row, token = PersonalAccessToken.objects.issue(user, "Laptop", scopes=["catalogue:read"])
        headers = {"Authorization": f"Bearer {token}"}
        with SyncClient(transport="http", headers=headers) as client:
            result = client.call_tool("whoami")
            self.assertEqual(result.text, "ann, Laptop")
        row.revoke()
        refused = self.assertRaisesMessage(Exception, "The access token is not valid here")
        with SyncClient(transport="http", headers=headers) as client, refused:
            client.call_tool("whoami")
