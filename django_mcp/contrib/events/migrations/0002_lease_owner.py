"""The owner of a lease has the name that it has for tasks."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("django_mcp_events", "0001_initial")]

    operations = [
        migrations.RenameField(
            model_name="subscription", old_name="lease_by", new_name="lease_owner"
        ),
    ]
