"""An event of the site: a group was created, which its reader is told of by a webhook."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group
from pydantic import BaseModel

from django_mcp import Frame
from django_mcp.contrib.events import delivery, event

# A killed worker holds a lease for less time than a test takes.
delivery.LEASE = timedelta(seconds=3)
delivery.POLL = 0.5


class GroupData(BaseModel):
    name: str


class Created:
    """A group was created, whose name begins with that of its reader."""

    def get_queryset(self, frame: Frame) -> Any:
        return Group.objects.filter(name__startswith=f"{frame.user.get_username()} ")

    def payload(self, group: Group, frame: Frame) -> GroupData:
        return GroupData(name=group.name)


group_created = event("group.created", model=Group, on="created")(Created)
