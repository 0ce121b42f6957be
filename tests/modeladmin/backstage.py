"""An admin with what sites have: limited rows, hidden fields, actions with pages and files."""

from __future__ import annotations

import csv
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path

from example_site.helpdesk.models import Comment, Customer, Refund, Ticket

site = admin.AdminSite("backstage")

PAGE = """<html><body><div id="content"><p>Move {{ queryset.count }} tickets</p>
<form method="post">{% csrf_token %}{{ form.as_p }}
{% for obj in queryset %}
<input type="hidden" name="_selected_action" value="{{ obj.pk }}">{% endfor %}
<input type="hidden" name="action" value="move"><input type="submit" name="apply" value="Move">
</form></div></body></html>"""


class MoveForm(forms.Form):
    """To which customer tickets are moved."""

    customer = forms.ModelChoiceField(Customer.objects.all())
    reason = forms.CharField(min_length=3)


class CommentInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Comment
    extra = 2
    fields = ["author", "text", "created"]
    readonly_fields = ["created"]


class TicketsOfCaller(admin.ModelAdmin):  # type: ignore[type-arg]
    """The tickets of which the caller is the assignee; a superuser has all."""

    list_display = ["subject", "customer", "status", "is_late"]
    list_filter = ["status"]
    search_fields = ["subject"]
    fields = ["customer", "subject", "description", "status", "number_of_comments"]
    readonly_fields = ["number_of_comments"]
    autocomplete_fields = ["customer"]
    inlines = [CommentInline]
    actions = ["close", "move", "export", "break_down"]

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request)
        user: Any = request.user
        return rows if user.is_superuser else rows.filter(assignee=user)

    @admin.display(boolean=True, description="Late")
    def is_late(self, ticket: Ticket) -> bool:
        return ticket.priority == Ticket.Priority.URGENT

    @admin.display(description="Comments")
    def number_of_comments(self, ticket: Ticket) -> str:
        return f"{ticket.comments.count()} comments" if ticket.pk else "-"

    @admin.action(description="Close tickets", permissions=["change"])
    def close(self, request: HttpRequest, queryset: Any) -> None:
        count = queryset.update(status=Ticket.Status.CLOSED)
        self.message_user(request, f"{count} closed.", messages.WARNING)

    @admin.action(description="Move tickets to another customer", permissions=["change"])
    def move(self, request: HttpRequest, queryset: Any) -> Any:
        form = MoveForm(request.POST if "apply" in request.POST else None)
        if form.is_valid():
            queryset.update(customer=form.cleaned_data["customer"])
            self.message_user(request, "Moved.")
            return None
        from django.template import engines

        template: Any = engines["django"].from_string(PAGE)
        return TemplateResponse(request, template, {"form": form, "queryset": queryset})

    @admin.action(description="Export tickets")
    def export(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        response = HttpResponse(
            content_type="text/csv", headers={"Content-Disposition": 'attachment; filename="t.csv"'}
        )
        csv.writer(response).writerows(queryset.values_list("subject", "status"))
        return response

    @admin.action(description="Break down")
    def break_down(self, request: HttpRequest, queryset: Any) -> None:
        queryset.update(status=Ticket.Status.CLOSED)
        raise ZeroDivisionError


class CustomersWithNames(admin.ModelAdmin):  # type: ignore[type-arg]
    """Customers without their e-mail addresses; those in Vienna are hidden."""

    list_display = ["name", "city"]
    fields = ["name", "city"]
    search_fields = ["name"]
    list_filter = ["city"]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).exclude(city="Vienna")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.email = obj.email or f"{obj.name}@example.org"
        super().save_model(request, obj, form, change)
        messages.info(request, f"Saved by {request.user}")


class RawRefunds(admin.ModelAdmin):  # type: ignore[type-arg]
    raw_id_fields = ["ticket"]
    fields = ["ticket", "amount", "reason"]
    list_display = ["amount", "ticket"]


site.register(Ticket, TicketsOfCaller)
site.register(Customer, CustomersWithNames)
site.register(Refund, RawRefunds)
site.register(User, UserAdmin)
site.register(Group, GroupAdmin)

urlpatterns = [path("backstage/", site.urls)]
