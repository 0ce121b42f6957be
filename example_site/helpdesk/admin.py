"""The helpdesk in the admin."""

from django.contrib import admin

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


@admin.register(Refund)
class RefundAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # Generic for mypy only.
    """Refunds that were approved."""

    list_display = ["__str__", "amount", "requested_by", "created"]
    list_select_related = ["ticket", "requested_by"]
