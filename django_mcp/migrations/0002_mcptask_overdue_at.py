"""When somebody first found that the lease of a task had ended."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mcp", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="mcptask",
            name="overdue_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
