# shop/tests.py
from django.contrib.auth.models import User
from django.test import TestCase

from django_mcp.testing import SyncClient, accept


class TwoFormsTests(TestCase):
    def test_two_forms_are_answered(self):
        def respond(request):
            is_amount = "many" in request["message"]
            return accept(pieces=2) if is_amount else accept(street="Main", town="Leeds")

        with SyncClient(user=User.objects.create_user("ann"), elicitation=respond) as client:
            assert client.call_tool("send_home").text == "Sent 2 pieces to Leeds."
