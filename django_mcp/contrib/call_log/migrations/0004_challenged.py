"""A call that led to a login, or to a request for a scope, is no error."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mcp_calls", "0003_errors")]

    operations = [
        migrations.AlterField(
            model_name="call",
            name="outcome",
            field=models.CharField(
                choices=[
                    ("ok", "ok"),
                    ("error", "error for the model"),
                    ("input_required", "input required"),
                    ("task", "continues as a task"),
                    ("challenged", "login or scope required"),
                    ("client_error", "client error"),
                    ("server_error", "server error"),
                    ("cancelled", "cancelled"),
                ],
                max_length=20,
                verbose_name="outcome",
            ),
        ),
    ]
