"""One index for the dashboard instead of three: the others were written for every call."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mcp_calls", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="call",
            index=models.Index(
                fields=[
                    "day",
                    "is_error",
                    "server",
                    "kind",
                    "component",
                    "user",
                    "duration_class",
                    "response_size",
                ],
                name="mcp_call_of_day",
            ),
        ),
        migrations.RemoveIndex(model_name="call", name="mcp_call_by_day"),
        migrations.RemoveIndex(model_name="call", name="mcp_call_by_component"),
        migrations.RemoveIndex(model_name="call", name="mcp_call_by_user"),
    ]
