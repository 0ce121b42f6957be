"""Two types of pages, with fields that the API reads and writes."""

from django.db import models
from wagtail.api import APIField
from wagtail.models import Page


class Section(Page):
    intro = models.CharField(max_length=200, blank=True)

    content_panels = [*Page.content_panels, "intro"]
    api_fields = [APIField("intro", writable=True)]


class Entry(Page):
    intro = models.CharField(max_length=50)
    date = models.DateField(null=True, blank=True)

    content_panels = [*Page.content_panels, "intro", "date"]
    api_fields = [APIField("intro", writable=True), APIField("date", writable=True)]
