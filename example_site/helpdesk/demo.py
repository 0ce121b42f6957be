"""The demo data: the same customers, tickets and comments on each run.

This module does not depend on users or commands: the caller passes the agents.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from django.contrib.auth.models import User

from example_site.helpdesk.models import Comment, Customer, Ticket

TICKETS = 200
FIRST_TICKET = datetime(2026, 1, 5, 8, tzinfo=UTC)
HOURS_BETWEEN = 11

CUSTOMERS = [
    ("Alder Street Bakery", "Leeds"),
    ("Bluewater Sailing School", "Plymouth"),
    ("Castle Hill Library", "Lincoln"),
    ("Driftwood Furniture", "Brighton"),
    ("Eastgate Dental Practice", "Chester"),
    ("Foxglove Garden Centre", "Exeter"),
    ("Greenfield Primary School", "Derby"),
    ("Harbour Light Hotel", "Whitby"),
    ("Ironbridge Cycles", "Telford"),
    ("Jubilee Community Hall", "Preston"),
    ("Kestrel Couriers", "Swindon"),
    ("Lakeside Veterinary Clinic", "Kendal"),
    ("Meadow View Care Home", "Hereford"),
    ("Northern Tile Works", "Stoke"),
    ("Orchard Cider Company", "Taunton"),
    ("Pennine Outdoor Supplies", "Hebden Bridge"),
    ("Quayside Fish Market", "Grimsby"),
    ("Riverside Theatre", "Norwich"),
    ("Stonebridge Accountants", "York"),
    ("Tidewater Kayak Club", "Poole"),
]

PROBLEMS = [
    ("Cannot log in", "The password is refused although it was reset this morning."),
    ("Printer prints blank pages", "Test pages come out blank; the toner was changed last week."),
    ("Invoice shows the wrong address", "We moved, and the invoices still have the old address."),
    ("Website is slow in the evening", "Pages take more than ten seconds between 18 and 20 h."),
    ("E-mails do not arrive", "Messages from outside arrive hours late, or never."),
    ("Card reader lost its connection", "The reader beside the till reports that it is offline."),
    ("New colleague needs an account", "Please set up an account with access to the calendar."),
    ("Backup failed", "The nightly backup stopped with the message that the disk is full."),
    ("Wi-Fi does not reach the back room", "The signal is gone as soon as the door is closed."),
    ("Export to the bank is refused", "The bank says that the file has no valid header."),
    ("Calendar is an hour off", "Appointments show one hour early since the clocks changed."),
    ("Telephone rings twice", "Every call rings again after it was picked up."),
    ("Licence has expired", "The office programs open read-only and ask for a new licence."),
    ("Scanner makes stripes", "A grey stripe runs down every page that is scanned."),
    ("Question about our contract", "Which response times does our contract include?"),
]

# The comments of a ticket in order: an agent writes the first, the customer replies.
COMMENTS = [
    "Thank you for telling us. How many people does this concern?",
    "Everybody in the office.",
    "We are looking into it, and will call you in the afternoon.",
    "Good. Please not before three, we have visitors.",
    "This is done now. Please tell us whether everything is as it should be.",
    "It is, thank you very much.",
]


def create(agents: Sequence[User]) -> None:
    """Create the data; ``agents`` are the users who are assigned to tickets."""
    chance = Random(TICKETS)  # Seeded, so that every database gets the same data.
    customers = Customer.objects.bulk_create(_customers())
    tickets = Ticket.objects.bulk_create(_tickets(customers, agents, chance))
    Comment.objects.bulk_create(
        comment for ticket in tickets for comment in _comments(ticket, chance)
    )


def _customers() -> Iterator[Customer]:
    for name, city in CUSTOMERS:
        domain = name.lower().replace(" ", "-")
        yield Customer(name=name, city=city, email=f"office@{domain}.example")


def _tickets(
    customers: Sequence[Customer], agents: Sequence[User], chance: Random
) -> Iterator[Ticket]:
    priorities = list(Ticket.Priority)
    for number in range(TICKETS):
        subject, description = PROBLEMS[number % len(PROBLEMS)]
        created = FIRST_TICKET + timedelta(hours=HOURS_BETWEEN * number)
        status = _status(number, chance)
        closed = status == Ticket.Status.CLOSED
        agent = chance.choice(agents)
        # Some open tickets are unassigned.
        waits = status == Ticket.Status.OPEN and number % 2 == 0
        yield Ticket(
            customer=chance.choice(customers),
            subject=subject,
            description=description,
            status=status,
            priority=chance.choices(priorities, weights=[3, 6, 3, 1])[0],
            assignee=None if waits else agent,
            created=created,
            closed=created + timedelta(days=chance.randint(1, 9)) if closed else None,
        )


def _status(number: int, chance: Random) -> Ticket.Status:
    """Whether a ticket is closed: most old ones are, the newest are not."""
    if chance.random() < 1 - number / TICKETS:
        return Ticket.Status.CLOSED
    return chance.choice([Ticket.Status.OPEN, Ticket.Status.OPEN, Ticket.Status.WAITING])


def _comments(ticket: Ticket, chance: Random) -> Iterator[Comment]:
    """Create the first comments of a ticket, or all of them; customers have no user account."""
    written = ticket.created
    number = chance.randint(1, len(COMMENTS)) if ticket.assignee else 0
    for index, text in enumerate(COMMENTS[:number]):
        written += timedelta(minutes=chance.randint(10, 900))
        author = ticket.assignee if index % 2 == 0 else None
        yield Comment(ticket=ticket, author=author, text=text, created=written)
