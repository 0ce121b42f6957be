"""All that the API reads, as tools, and some of what it writes."""

from asked import prepare
from pretix.api.urls import urlpatterns
from pretix.api.views.order import EventOrderViewSet

from django_mcp.rest import rest_tools

WRITES = [
    "checkin_list_create",
    "checkin_list_partial_update",
    "item_category_*",
    "membership_type_create",
    "question_create",
    "question_partial_update",
    "quota_create",
    "quota_partial_update",
    "sales_channel_create",
    "tax_rule_create",
    "tax_rule_destroy",
    "tax_rule_partial_update",
    "team_create",
    "team_partial_update",
    "voucher_create",
    "voucher_destroy",
    "voucher_partial_update",
    "web_hook_create",
]
rest_tools(
    urlpatterns,
    read_only=False,
    include=["*_list", "*_retrieve", "*_settings", "me", "version", *WRITES],
    answer="full",  # To be compared with the API.
    prepare=prepare,
)
# Its names are those of the orders of an organizer, which come first.
rest_tools(
    EventOrderViewSet,
    actions=["list", "retrieve", "partial_update"],
    options={
        action: {"name": f"event_order_{action}"}
        for action in ("list", "retrieve", "partial_update")
    },
    answer="full",
    prepare=prepare,
)
