"""Migrations that have landed: sites may have applied them, so that they are never rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from tests.architecture.sources import PACKAGE

LANDED: Mapping[str, str] = {
    "contrib/approvals/migrations/0001_initial.py": "d3802617c396bd38",
    "contrib/call_log/migrations/0001_initial.py": "5b771586a6c71c51",
    "contrib/call_log/migrations/0002_one_index_for_the_dashboard.py": "c4aca5698f23d246",
    "contrib/call_log/migrations/0003_errors.py": "62ad9fe65aaf5b8d",
    "contrib/call_log/migrations/0004_challenged.py": "2cfa2c67a1e4f310",
    "contrib/call_log/migrations/0005_calls_beside_users.py": "d185b98f3924e538",
    "contrib/events/migrations/0001_initial.py": "d73d466b1e27de43",
    "contrib/events/migrations/0002_lease_owner.py": "5e394dac1eb1829e",
    "contrib/events/migrations/0003_interest_began_at.py": "685471dc53148c15",
    "contrib/url_elicitation/migrations/0001_initial.py": "ec607687c73c357a",
    "migrations/0001_initial.py": "3350be988a6884a2",
    "migrations/0002_mcptask_overdue_at.py": "bebefb5aeab94eed",
    "migrations/0003_task_waits.py": "17491a9aca00d6a1",
    "contrib/oauth/migrations/0001_initial.py": "2b0c4f652fc1dd94",
    "contrib/oauth/migrations/0002_machines.py": "18cb481d5800f506",
    "contrib/tokens/migrations/0001_initial.py": "4799ba8376ca730b",
}
"""The digest of each migration. Add a new one when it lands; none of them changes afterwards."""


def digests() -> dict[str, str]:
    return {
        str(path.relative_to(PACKAGE)): sha256(path.read_bytes()).hexdigest()[:16]
        for path in PACKAGE.glob("**/migrations/[0-9]*.py")
    }


def test_migrations_that_have_landed_are_what_they_were() -> None:
    found = digests()
    changed = [name for name, digest in LANDED.items() if found.get(name) != digest]
    assert not changed, "Do not edit a migration that has landed: add another one"


def test_new_migrations_are_in_the_list() -> None:
    assert digests() == dict(LANDED), "Add the digest of a new migration to LANDED"
