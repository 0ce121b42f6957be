"""The admin of events: subscriptions and deliveries, which nobody edits."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_mcp.contrib.events import delivery, interest
from django_mcp.contrib.events.models import Delivery, Occurrence, Subscription
from django_mcp.runtime.read_only_admin import ReadOnlyAdmin


@admin.register(Subscription)
class SubscriptionAdmin(ReadOnlyAdmin):
    """Webhooks, with their state. Neither secrets nor stored callers are shown."""

    list_display = (
        "event",
        "server",
        "url",
        "principal",
        "status",
        "last_error",
        "last_delivery_at",
        "expires_at",
    )
    list_filter = ("status", "server", "event", "last_error")
    search_fields = ("event", "url", "principal", "client")
    actions = ("end",)
    fields = (
        "id",
        "event",
        "arguments",
        "server",
        "url",
        "principal",
        "client",
        "version",
        "status",
        "created_at",
        "refreshed_at",
        "expires_at",
        "verified_at",
        "position",
        "attempts",
        "next_attempt_at",
        "last_delivery_at",
        "last_error",
        "failed_since",
    )
    readonly_fields = fields

    @admin.action(description=_("End selected subscriptions"), permissions=["delete"])
    def end(self, request: HttpRequest, queryset: QuerySet[Subscription]) -> None:
        """Send nothing more; the receivers are not told."""
        count = 0
        for row in queryset:
            row.terminate()
            count += 1
        interest.HERE.forget()
        text = ngettext("%d subscription was ended.", "%d subscriptions were ended.", count)
        self.message_user(request, text % count, messages.SUCCESS)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """Requests to receivers, and ones that failed."""

    list_display = (
        "event_id",
        "subscription",
        "status",
        "attempts",
        "last_error",
        "created_at",
        "ended_at",
    )
    list_filter = ("status", "last_error", "created_at")
    list_select_related = ("subscription",)
    search_fields = ("event_id", "subscription__url", "subscription__event")
    date_hierarchy = "created_at"
    actions = ("redeliver",)

    def has_redeliver_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_mcp_events.change_delivery")

    @admin.action(description=_("Deliver again"), permissions=["redeliver"])
    def redeliver(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        count = delivery.redeliver(queryset)
        text = ngettext("%d event is delivered again.", "%d events are delivered again.", count)
        self.message_user(request, text % count, messages.SUCCESS)


@admin.register(Occurrence)
class OccurrenceAdmin(ReadOnlyAdmin):
    """Occurrences, without their data: the right to see them is decided at each delivery."""

    list_display = ("event", "event_id", "server", "object_key", "position", "created_at")
    list_filter = ("server", "event", "created_at")
    search_fields = ("event", "event_id", "object_key")
    date_hierarchy = "created_at"
    fields = ("event_id", "event", "server", "object_key", "position", "created_at")
    readonly_fields = fields

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
