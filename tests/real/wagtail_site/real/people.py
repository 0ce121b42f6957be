"""A superuser, an editor of one section, a moderator, a user without rights, and nobody."""

from dataclasses import dataclass

from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from wagtail.models import APIToken, GroupPagePermission, Page, PageViewRestriction, Site

from django_mcp.testing import SyncClient
from real.models import Entry, Section


@dataclass(frozen=True)
class Person:
    name: str
    headers: dict[str, str]
    pages: tuple[int, ...]

    def mcp(self):
        return SyncClient(transport="http", headers=self.headers, raise_exceptions=False)

    def api(self):
        return Client(raise_request_exception=False, headers=self.headers)

    def value_of(self, name, schema, chance):
        """Return a value of the data below for an argument, or None for any other one."""
        match name:
            case "page_id" | "child_of" | "descendant_of" | "ancestor_of":
                return chance.choice([*self.pages, *self.pages, 77])
            case "revision_id":
                return chance.choice([1, 2, 3, 4, 5, 77])
            case "site_id":
                return chance.choice([1, 1, 1, 77])
            case "type_name":
                return chance.choice(["real.Entry", "real.Entry", "real.Section", "real.None"])
            case "type":
                return chance.choice([["real.Entry"], ["real.Section"], ["real.None"]])
            case "limit":
                return chance.choice([1, 3, 20, 20, 21])
            case "offset":
                return chance.choice([0, 1, 50])
            case "search":
                return chance.choice(["tea", "cup", ""])
            case "order":
                return chance.choice(["title", "-id", "nothing"])
            case "fields":
                return None
            case "data":
                return self.data_of(chance)
            case "hostname":
                return chance.choice(["tea.example", "localhost", "x" * 300])
            case "root_page_id":
                return chance.choice([self.pages[0], 77])
        return None

    def data_of(self, chance):
        """Return a page; some have a field too few, a type that is unknown, or a place that is."""
        meta = {
            "type": chance.choice(["real.Entry", "real.Entry", "real.Section", "real.None"]),
            "parent_id": chance.choice([*self.pages, 77]),
        }
        if chance.random() < 0.3:
            meta["action"] = chance.choice(["publish", "burn"])
        data = {
            "meta": meta,
            "title": chance.choice(["Green tea", "A cup", ""]),
            "slug": chance.choice(["green", "cup", "black", "not a slug"]),
            "intro": chance.choice(["Short", "Short", "x" * 60]),
            "date": chance.choice(["2026-11-28", "2026-12-24", None, "never"]),
        }
        for name in [*data]:
            if chance.random() < 0.1:
                del data[name]
        return data


def create():
    root = Page.objects.get(depth=1)
    home = root.add_child(instance=Section(title="Shop", slug="shop"))
    Site.objects.update(root_page=home)
    sections = [
        home.add_child(instance=Section(title=name, slug=name)) for name in ("teas", "cups")
    ]
    entries = []
    for section in sections:
        for name in ("one", "two"):
            page = Entry(title=f"{section.title} {name}", slug=name, intro=name)
            entries.append(section.add_child(instance=page))
            page.save_revision().publish()
    draft = sections[0].add_child(
        instance=Entry(title="A draft", slug="d", intro="None", live=False)
    )
    draft.save_revision()
    PageViewRestriction.objects.create(page=sections[1], restriction_type="login")

    def group(name, page, *codenames):
        made = Group.objects.create(name=name)
        for codename in codenames:
            permission = Permission.objects.get(
                codename=codename, content_type__app_label="wagtailcore"
            )
            GroupPagePermission.objects.create(group=made, page=page, permission=permission)
        return made

    owner = User.objects.create_superuser("owner")
    editor = User.objects.create_user("editor")
    editor.groups.add(group("editors of teas", sections[0], "add_page", "change_page"))
    moderator = User.objects.create_user("moderator")
    rights = ("add_page", "change_page", "publish_page", "lock_page")
    moderator.groups.add(group("moderators", home, *rights))
    moderator.user_permissions.add(Permission.objects.get(codename="view_site"))
    guest = User.objects.create_user("guest")
    pages = (home.pk, *(page.pk for page in (*sections, *entries, draft)))
    persons = [Person("nobody", {}, pages)]
    for user in (owner, editor, moderator, guest):
        _, token = APIToken.create_token(user=user, name="test")
        persons.append(Person(user.username, {"Authorization": f"Bearer {token}"}, pages))
    persons.append(Person("with a wrong token", {"Authorization": "Bearer wrong"}, pages))
    return persons
