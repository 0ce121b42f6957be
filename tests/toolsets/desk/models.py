"""Models with secret columns, and rows that are secret to most callers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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


class Part(models.Model):
    """Its primary key is what people call it."""

    code = models.CharField(max_length=20, primary_key=True)
    name = models.CharField(max_length=50)
    team = models.ForeignKey(Team, on_delete=models.CASCADE)

    class Meta:
        app_label = "toolset_desk"

    def __str__(self) -> str:
        return self.code


class Bolt(Part):
    """A part with a table of its own besides."""

    length = models.IntegerField(default=1)

    class Meta:
        app_label = "toolset_desk"


class Profile(models.Model):
    """Its primary key is that of a team."""

    team = models.OneToOneField(Team, on_delete=models.CASCADE, primary_key=True)
    text = models.CharField(max_length=50)

    class Meta:
        app_label = "toolset_desk"


class ActiveGadgets(models.Manager["Gadget"]):
    def get_queryset(self) -> models.QuerySet[Gadget]:
        return super().get_queryset().filter(is_archived=False)


class Gadget(models.Model):
    """The default manager hides some rows, so that no form finds their keys."""

    code = models.CharField(max_length=20, primary_key=True)
    serial = models.CharField(max_length=20, unique=True)
    is_archived = models.BooleanField(default=False)

    objects = ActiveGadgets()

    class Meta:
        app_label = "toolset_desk"

    def save(self) -> None:  # type: ignore[override]
        """Without the arguments of Django, as many models have it."""
        self.code = self.code.strip()
        super().save()


current_scope: ContextVar[str | None] = ContextVar("current_scope", default=None)


@contextmanager
def branch_scope(name: str) -> Iterator[None]:
    token = current_scope.set(name)
    try:
        yield
    finally:
        current_scope.reset(token)


class ScopedBranches(models.Manager["Branch"]):
    """Fails without a tenant, as the managers of django_scopes do."""

    def get_queryset(self) -> models.QuerySet[Branch]:
        scope = current_scope.get()
        if scope is None:
            raise RuntimeError("A scope on dimension(s) branch needs to be active for this query.")
        return super().get_queryset().filter(scope=scope)


class Branch(models.Model):
    name = models.CharField(max_length=20)
    scope = models.CharField(max_length=20)

    objects = ScopedBranches()

    class Meta:
        app_label = "toolset_desk"


class Lot(models.Model):
    name = models.CharField(max_length=20)
    branch = models.ForeignKey(Branch, on_delete=models.CASCADE)
    others = models.ManyToManyField(Branch, related_name="other_lots", blank=True)

    class Meta:
        app_label = "toolset_desk"


class Section(models.Model):
    """Other rows name it by its number."""

    number = models.IntegerField(unique=True)
    name = models.CharField(max_length=20)
    team = models.ForeignKey(Team, on_delete=models.CASCADE)

    class Meta:
        app_label = "toolset_desk"


class Meeting(models.Model):
    """It has rules about several of its values."""

    slug = models.SlugField(unique_for_date="start")
    kind = models.CharField(max_length=20, choices=[("talk", "Talk")], default="talk")
    start = models.DateField()
    end = models.DateField()
    length = models.DurationField(null=True, blank=True)
    section = models.ForeignKey(Section, on_delete=models.CASCADE, to_field="number")
    guests = models.ManyToManyField(Section, related_name="visits", blank=True)

    class Meta:
        app_label = "toolset_desk"

    def clean(self) -> None:
        if self.start and self.end and self.end < self.start:
            raise ValidationError({"end": "It ends before it starts."})


MODELS: tuple[Any, ...] = (
    Team, Customer, Ticket, Comment, Node, Note, Part, Bolt, Profile, Gadget, Branch, Lot,
    Section, Meeting,
)  # fmt: skip
