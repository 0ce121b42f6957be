from django.urls import include, path
from wagtail import urls
from wagtail.admin import urls as admin_urls
from wagtail.api.v3.urls import api

urlpatterns = [
    path("api/v3/", api.urls),
    path("admin/", include(admin_urls)),
    path("", include(urls)),
]
