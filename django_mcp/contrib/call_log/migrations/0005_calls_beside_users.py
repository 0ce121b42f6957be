"""Only what Django does when a user is deleted: nothing changes in the database."""

from django.conf import settings
from django.db import migrations, models

import django_mcp.contrib.call_log.models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("django_mcp_calls", "0004_challenged"),
    ]

    operations = [
        migrations.AlterField(
            model_name="call",
            name="user",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django_mcp.contrib.call_log.models.set_null_beside_users,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="user",
            ),
        ),
    ]
