"""What the page about tenants uses of django-tenants, without its databases."""
