"""The helpdesk in the admin."""

from __future__ import annotations

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from example_site.helpdesk.models import Comment, Customer, Refund, Ticket


@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # Generic for mypy only.
    """Customers, with a search by name."""

    list_display = ["name", "city", "email"]
    search_fields = ["name", "city"]


class CommentInline(admin.TabularInline):  # type: ignore[type-arg] # Generic for mypy only.
    """Comments, edited on the page of their ticket."""

    model = Comment
    extra = 1


class AssignForm(forms.Form):
    """Who works on tickets, and what they should know."""

    assignee = forms.ModelChoiceField(User.objects.filter(is_staff=True))
    note = forms.CharField(required=False, help_text="A comment on each ticket.")


@admin.register(Ticket)
class TicketAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # Generic for mypy only.
    """Tickets with their comments."""

    list_display = ["__str__", "customer", "status", "priority", "assignee", "created"]
    list_filter = ["status", "priority", "assignee"]
    list_select_related = ["customer", "assignee"]
    search_fields = ["subject", "description", "customer__name"]
    autocomplete_fields = ["customer"]
    date_hierarchy = "created"
    inlines = [CommentInline]
    actions = ["assign"]

    @admin.action(description="Assign selected tickets", permissions=["change"])
    def assign(self, request: HttpRequest, queryset: QuerySet[Ticket]) -> HttpResponse | None:
        """Ask on a page who works on tickets, and assign them."""
        form = AssignForm(request.POST if "apply" in request.POST else None)
        if not form.is_valid():
            context = {**self.admin_site.each_context(request), "form": form, "tickets": queryset}
            return TemplateResponse(request, "helpdesk/admin/assign.html", context)
        assignee: User = form.cleaned_data["assignee"]
        note: str = form.cleaned_data["note"]
        for ticket in queryset:
            ticket.assignee = assignee
            ticket.save(update_fields=["assignee"])
            if note:
                Comment.objects.create(ticket=ticket, author=assignee, text=note)
            self.log_change(request, ticket, f"Assigned to {assignee}.")
        self.message_user(request, f"Assigned to {assignee}.")
        return None


@admin.register(Refund)
class RefundAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # Generic for mypy only.
    """Refunds that were approved."""

    list_display = ["__str__", "amount", "requested_by", "created"]
    list_select_related = ["ticket", "requested_by"]
