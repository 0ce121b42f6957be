"""Models of the helpdesk: customers, their tickets, comments and refunds."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone


class Customer(models.Model):
    """An organisation that may open tickets."""

    name = models.CharField(max_length=100, unique=True)
    email = models.EmailField(unique=True)
    city = models.CharField(max_length=100)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Ticket(models.Model):
    """A customer's request for help."""

    class Status(models.TextChoices):
        OPEN = "open"
        WAITING = "waiting", "Waiting for the customer"
        CLOSED = "closed"

    class Priority(models.TextChoices):
        LOW = "low"
        NORMAL = "normal"
        HIGH = "high"
        URGENT = "urgent"

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="tickets")
    subject = models.CharField(max_length=200)
    description = models.TextField()
    status = models.CharField(max_length=10, choices=Status, default=Status.OPEN)
    priority = models.CharField(max_length=10, choices=Priority, default=Priority.NORMAL)
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        related_name="tickets",
        null=True,
        blank=True,
    )
    created = models.DateTimeField(default=timezone.now)
    closed = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created", "-pk"]
        indexes = [models.Index(fields=["status", "priority"])]

    def __str__(self) -> str:
        return f"#{self.pk} {self.subject}"

    @property
    def answer_due(self) -> timedelta:
        """The time within which the first answer is due."""
        return ANSWER_DUE[self.Priority(self.priority)]


ANSWER_DUE = {
    Ticket.Priority.URGENT: timedelta(hours=4),
    Ticket.Priority.HIGH: timedelta(hours=8),
    Ticket.Priority.NORMAL: timedelta(days=1),
    Ticket.Priority.LOW: timedelta(days=3),
}


class Comment(models.Model):
    """A comment on a ticket; comments of customers have no author."""

    ticket = models.ForeignKey(Ticket, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        related_name="comments",
        null=True,
        blank=True,
    )
    text = models.TextField()
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["created", "pk"]

    def __str__(self) -> str:
        return self.text[:60]

    @property
    def author_name(self) -> str:
        """Return the name of the author."""
        return self.author.get_username() if self.author else "a guest"


class Refund(models.Model):
    """Money that a customer got back."""

    ticket = models.ForeignKey(Ticket, on_delete=models.CASCADE, related_name="refunds")
    amount = models.DecimalField(max_digits=8, decimal_places=2)
    reason = models.TextField()
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        related_name="refunds",
        null=True,
        blank=True,
    )
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-created", "-pk"]
        permissions = [("approve_refund", "Can approve refunds that others request")]

    def __str__(self) -> str:
        return f"{self.amount} for {self.ticket}"
