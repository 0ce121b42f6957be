"""The URLs of the API of the tests."""

from django.urls import include, path
from rest_framework.routers import DefaultRouter

from tests.rest import api

router = DefaultRouter()
router.register("tickets", api.TicketViewSet)
router.register("customers", api.CustomerViewSet)

versions = [path("version/", api.ByNamespace.as_view())]

urlpatterns = [
    path("api/", include(router.urls)),
    path("path/<str:version>/", api.ByPath.as_view()),
    path("<str:name>/taken/", api.Taking.as_view()),
    path("a/taken/", api.Taken.as_view()),
    path("header/", api.ByHeader.as_view()),
    path("query/", api.ByQuery.as_view()),
    path("one/", include((versions, "ns"), namespace="one")),
    path("two/", include((versions, "ns"), namespace="two")),
    path("caller/", api.Caller.as_view()),
    path("async/", api.AsyncCaller.as_view()),
    path("fails/", api.WritesAndFails.as_view()),
    path("uploads/", api.Uploads.as_view()),
    path("report/", api.Report.as_view()),
    path("outcome/", api.Outcome.as_view()),
    path("ping/<slug:name>/", api.ping),
]
