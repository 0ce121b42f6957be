"""Models with secret columns, and rows that are secret to most callers."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy


class Team(models.Model):
    name = models.CharField(max_length=50, unique=True)
    budget = models.IntegerField(default=0)  # Secret.

    class Meta:
        app_label = "toolset_desk"


class Customer(models.Model):
    name = models.CharField(max_length=100)
    email = models.EmailField(default="secret@secret.example")  # Secret.
    password = models.CharField(max_length=100, default="")  # Secret.
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="customers")

    class Meta:
        app_label = "toolset_desk"


class Ticket(models.Model):
    class Status(models.TextChoices):
        OPEN = "open", gettext_lazy("Yes")
        CLOSED = "closed", gettext_lazy("No")

    number = models.IntegerField(unique=True)
    subject = models.CharField(gettext_lazy("name"), max_length=100, help_text="In short")
    description = models.TextField(blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.OPEN)
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)
    rating = models.FloatField(null=True, blank=True)
    is_urgent = models.BooleanField(default=True)
    created = models.DateTimeField()
    due = models.DateField(null=True, blank=True)
    data = models.JSONField(default=dict, blank=True)
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="tickets")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True)
    code = models.CharField(max_length=50, default="")  # Secret.
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="tickets")

    class Meta:
        app_label = "toolset_desk"
        ordering = ["code"]

    def __str__(self) -> str:
        return self.code

    def clean(self) -> None:
        if self.subject == "forbidden":
            raise ValidationError({"subject": "This subject is forbidden."})


class Comment(models.Model):
    ticket = models.ForeignKey(Ticket, on_delete=models.CASCADE, related_name="comments")
    text = models.TextField()
    code = models.CharField(max_length=50, default="")  # Secret.

    class Meta:
        app_label = "toolset_desk"
        ordering = ["pk"]


class Node(models.Model):
    """A part of a tree: its parts go with it."""

    name = models.CharField(max_length=50, unique=True)
    team = models.ForeignKey(Team, on_delete=models.CASCADE)
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="parts")

    class Meta:
        app_label = "toolset_desk"


class Note(models.Model):
    """It survives the nodes that it names."""

    text = models.CharField(max_length=50)
    team = models.ForeignKey(Team, on_delete=models.CASCADE)
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True)
    former_node = models.ForeignKey(
        Node, on_delete=models.SET_DEFAULT, null=True, default=None, related_name="former_notes"
    )
    linked_nodes = models.ManyToManyField(Node, related_name="linking_notes")

    class Meta:
        app_label = "toolset_desk"


MODELS: tuple[Any, ...] = (Team, Customer, Ticket, Comment, Node, Note)
