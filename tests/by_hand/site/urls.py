"""The site has no pages."""

urlpatterns: list[object] = []
