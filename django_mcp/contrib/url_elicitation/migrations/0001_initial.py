"""Answers of elicitation pages."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = [
        migrations.CreateModel(
            name="PageAnswer",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("user_key", models.CharField(max_length=255, verbose_name="user")),
                ("action", models.CharField(max_length=10, verbose_name="action")),
                ("encrypted_content", models.TextField(verbose_name="values")),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="created"),
                ),
                ("expires_at", models.DateTimeField(db_index=True, verbose_name="expires")),
            ],
            options={
                "verbose_name": "answer of an elicitation page",
                "verbose_name_plural": "answers of elicitation pages",
            },
        ),
    ]
