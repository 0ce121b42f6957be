"""The text of an error, and the exception behind it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mcp_calls", "0002_one_index_for_the_dashboard")]

    operations = [
        migrations.AddField(
            model_name="call",
            name="error",
            field=models.TextField(blank=True, default="", verbose_name="error"),
        ),
        migrations.AddField(
            model_name="call",
            name="exception",
            field=models.TextField(blank=True, default="", verbose_name="exception"),
        ),
        migrations.AddField(
            model_name="call",
            name="fingerprint",
            field=models.CharField(
                blank=True, default="", max_length=12, verbose_name="fingerprint"
            ),
        ),
        migrations.AlterModelOptions(
            name="call",
            options={
                "default_permissions": ("view",),
                "ordering": ("-id",),
                "permissions": [("view_exception", "Can view exceptions of calls")],
                "verbose_name": "call",
                "verbose_name_plural": "calls",
            },
        ),
    ]
