"""Tokens of three teams and of a device, with different rights at two organizers."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from django.utils.timezone import now
from django_scopes import scopes_disabled
from pretix.base.models import (
    Device,
    Event,
    Item,
    Order,
    OrderPosition,
    Organizer,
    Question,
    Quota,
    Team,
    Voucher,
)
from rest_framework.test import APIClient

from django_mcp.testing import SyncClient

ORGANIZERS = ("acme", "tribe")
EVENTS = ("fair", "night")


@dataclass(frozen=True)
class Person:
    name: str
    authorization: str
    organizer: str
    numbers: tuple[int, ...]
    """The keys of rows that there are at the first event of the organizer."""

    def mcp(self):
        headers = {"Authorization": self.authorization}
        return SyncClient(transport="http", headers=headers, raise_exceptions=False)

    def api(self):
        return APIClient(
            raise_request_exception=False, headers={"Authorization": self.authorization}
        )

    def value_of(self, name, schema, chance):
        """Return a value of the data below for an argument, or None for any other one."""
        match name:
            case "name" | "question" if schema.get("type") == "object":
                return {"en": "A name"}
            case "organizer":
                return chance.choices([self.organizer, *ORGANIZERS, "nowhere"], [16, 2, 2, 1])[0]
            case "event":
                return chance.choices([*EVENTS, "nowhere"], [12, 4, 1])[0]
            case "code" | "order":
                return chance.choice(["ACM1", "ACM2", "TRI1", "NONE"])
            case "page":
                return chance.choice([1, 1, 1, 2])
            case "id" | "item" | "list" | "question" | "tax_rule" | "team":
                number = chance.choice([*self.numbers, *self.numbers, 3, 7])
                return str(number) if schema.get("type") == "string" else number
            case "items" | "limit_products":
                return [self.numbers[0]]
        return None


@scopes_disabled()
def create():
    acme, tribe = (Organizer.objects.create(name=slug, slug=slug) for slug in ORGANIZERS)
    for organizer in (acme, tribe):
        organizer.customers.create(email=f"customer@{organizer.slug}.example.org")
        organizer.issued_gift_cards.create(currency="EUR")
        organizer.membership_types.create(name="Member")
        for slug in EVENTS:
            _create_event(organizer, slug)
    fair = Event.objects.get(organizer=acme, slug="fair")
    owners = Team.objects.create(
        organizer=acme,
        name="Owners",
        all_events=True,
        all_event_permissions=True,
        all_organizer_permissions=True,
    )
    readers = Team.objects.create(
        organizer=acme,
        name="Readers",
        limit_event_permissions={"event.orders:read": True, "event.items:write": True},
    )
    readers.limit_events.add(fair)
    others = Team.objects.create(
        organizer=tribe, name="Others", all_events=True, all_event_permissions=True
    )
    device = Device.objects.create(
        organizer=acme, name="Scanner", api_token="scanner", initialized=now()
    )
    device.limit_events.add(fair)
    # Two events of the first organizer come before those of the second one.
    places = ((owners, "acme", (1, 2)), (readers, "acme", (1, 2)), (others, "tribe", (3, 5)))
    teams = [
        Person(team.name, f"Token {team.tokens.create(name=team.name).token}", slug, numbers)
        for team, slug, numbers in places
    ]
    # Half of the calls are those of the team that may do all.
    return [
        *teams,
        teams[0],
        teams[0],
        Person(device.name, f"Device {device.api_token}", "acme", (1, 2)),
    ]


def _create_event(organizer, slug):
    event = Event.objects.create(
        organizer=organizer, name=slug, slug=slug, date_from=now() + timedelta(30), live=True
    )
    tax = event.tax_rules.create(name="VAT", rate=Decimal(19))
    category = event.categories.create(name="Tickets")
    items = [
        Item.objects.create(
            event=event, name=name, default_price=price, tax_rule=tax, category=category
        )
        for name, price in (("Ticket", Decimal(23)), ("Workshop", Decimal(50)))
    ]
    quota = Quota.objects.create(event=event, name="All", size=50)
    quota.items.add(*items)
    items[0].addons.create(addon_category=category)
    items[0].bundles.create(bundled_item=items[1])
    items[1].variations.create(value="With lunch")
    question = Question.objects.create(event=event, question="Which size?", type="C")
    question.items.add(items[0])
    question.options.create(answer="Large")
    event.discounts.create(internal_name="Many", condition_min_count=5)
    Voucher.objects.create(event=event, code=f"FREE{event.pk}", item=items[0])
    event.checkin_lists.create(name="Door", all_products=True)
    for number in range(1, 3):
        order = Order.objects.create(
            code=f"{organizer.slug[:3].upper()}{number}"
            if slug == "fair"
            else f"N{event.pk}{number}",
            event=event,
            email=f"guest{number}@example.org",
            status=Order.STATUS_PAID if number == 1 else Order.STATUS_PENDING,
            datetime=now(),
            expires=now() + timedelta(10),
            total=Decimal(23),
            sales_channel=organizer.sales_channels.get(identifier="web"),
            locale="en",
        )
        OrderPosition.objects.create(order=order, item=items[0], price=Decimal(23))
