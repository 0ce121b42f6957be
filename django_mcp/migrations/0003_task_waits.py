"""A task waits for its approval, and its lease has an owner: two other names."""

from collections.abc import Callable
from typing import Any

from django.db import migrations, models


def rename_status(old: str, new: str) -> Callable[[Any, Any], None]:
    def rename(apps: Any, schema_editor: Any) -> None:
        tasks = apps.get_model("django_mcp", "McpTask").objects.using(
            schema_editor.connection.alias
        )
        tasks.filter(status=old).update(status=new)

    return rename


class Migration(migrations.Migration):
    dependencies = [("django_mcp", "0002_mcptask_overdue_at")]

    operations = [
        migrations.RenameField("mcptask", "lease_by", "lease_owner"),
        migrations.AlterField(
            model_name="mcptask",
            name="lease_owner",
            field=models.CharField(blank=True, max_length=64, verbose_name="lease owner"),
        ),
        migrations.AlterField(
            model_name="mcptask",
            name="status",
            field=models.CharField(
                choices=[
                    ("waiting", "waiting for approval"),
                    ("working", "working"),
                    ("input_required", "input required"),
                    ("completed", "completed"),
                    ("failed", "failed"),
                    ("cancelled", "cancelled"),
                    ("declined", "declined"),
                    ("expired", "expired"),
                ],
                max_length=20,
                verbose_name="status",
            ),
        ),
        migrations.RunPython(
            rename_status("held", "waiting"), rename_status("waiting", "held"), elidable=True
        ),
    ]
