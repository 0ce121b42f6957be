"""An admin with object permissions, for the comparison of a browser and the tools."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from django.urls import include, path

from example_site.helpdesk.admin import CustomerAdmin, RefundAdmin, TicketAdmin
from example_site.helpdesk.models import Customer, Refund, Ticket

OWNER = "owen"
"""The user whose permissions are those of objects."""


class TicketsByObject(TicketAdmin):
    """Whoever is called OWNER may view and change the tickets that are assigned to them."""

    actions = ["close"]

    @admin.action(description="Close", permissions=["change"])
    def close(self, request: HttpRequest, queryset: Any) -> None:
        for ticket in queryset:
            if self.has_change_permission(request, ticket):
                ticket.status = Ticket.Status.CLOSED
                ticket.save()
                self.log_change(request, ticket, "Closed.")
        self.message_user(request, "Done.")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self._is_owner(request, None) or super().has_module_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._is_owner(request, obj) or super().has_view_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._is_owner(request, obj) or super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_owner = obj is not None and self._is_owner(request, obj)
        return is_owner or super().has_delete_permission(request, obj)

    def _is_owner(self, request: HttpRequest, obj: Any) -> bool:
        user: Any = request.user
        is_owner: bool = user.get_username() == OWNER
        return is_owner and (obj is None or obj.assignee_id == user.pk)


site = admin.AdminSite("parity")
site.register(Ticket, TicketsByObject)
site.register(Customer, CustomerAdmin)
site.register(Refund, RefundAdmin)
site.register(User, UserAdmin)
site.register(Group, GroupAdmin)

urlpatterns = [path("", include("example_site.urls")), path("parity/", site.urls)]
