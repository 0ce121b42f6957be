"""When a type became of interest: clients are answered once all processes know of it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mcp_events", "0002_lease_owner")]

    operations = [
        migrations.AddField(
            model_name="interest", name="began_at", field=models.DateTimeField(null=True)
        ),
    ]
