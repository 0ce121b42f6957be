"""An API of REST framework for the tests: nested serializers, filters, rights and versions."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django_filters import rest_framework as filters
from rest_framework import (
    decorators,
    generics,
    mixins,
    pagination,
    parsers,
    permissions,
    renderers,
    serializers,
    throttling,
    versioning,
    views,
    viewsets,
)
from rest_framework.exceptions import ValidationError
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.response import Response

from example_site.helpdesk.models import Comment, Customer, Ticket


class CommentSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    class Meta:
        model = Comment
        fields = ("id", "text", "author")
        read_only_fields = ("author",)


class TicketSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    """The e-mail address of the customer is not among the fields."""

    customer_name = serializers.CharField(source="customer.name", read_only=True)
    comments = CommentSerializer(many=True, required=False)
    notify = serializers.BooleanField(write_only=True, default=False)

    class Meta:
        model = Ticket
        fields = (
            "id",
            "customer",
            "customer_name",
            "subject",
            "description",
            "status",
            "priority",
            "assignee",
            "comments",
            "notify",
        )
        read_only_fields = ("assignee",)

    def validate_subject(self, subject: str) -> str:
        if "spam" in subject:
            raise ValidationError("This looks like spam.")
        return subject

    def create(self, data: dict[str, Any]) -> Ticket:
        comments, _ = data.pop("comments", []), data.pop("notify", False)
        ticket = Ticket.objects.create(**data)
        Comment.objects.bulk_create(Comment(ticket=ticket, **each) for each in comments)
        return ticket

    def update(self, ticket: Ticket, data: dict[str, Any]) -> Ticket:
        data.pop("comments", None)
        data.pop("notify", None)
        updated: Ticket = super().update(ticket, data)
        return updated


class TicketFilter(filters.FilterSet):  # type: ignore[misc]
    class Meta:
        model = Ticket
        fields = {
            "status": ["exact", "in"],
            "created": ["gte", "lt"],
            "customer": ["exact"],
            "assignee": ["isnull"],
        }


class IsAssigneeOrReads(permissions.BasePermission):  # type: ignore[misc]
    """Changes are for the assignee of a ticket, and for staff."""

    message = "Only the assignee may change this ticket."

    def has_object_permission(self, request: Any, view: Any, ticket: Ticket) -> bool:
        may_change = request.user.is_staff or ticket.assignee == request.user
        return request.method in permissions.SAFE_METHODS or may_change


class Pages(pagination.PageNumberPagination):  # type: ignore[misc]
    page_size = 3
    page_size_query_param = "page_size"
    max_page_size = 5


class TicketViewSet(viewsets.ModelViewSet):  # type: ignore[misc]
    """Tickets: staff has all of them, an agent those without or with this assignee."""

    queryset = Ticket.objects.select_related("customer").prefetch_related("comments")
    serializer_class = TicketSerializer
    permission_classes = (permissions.IsAuthenticated, IsAssigneeOrReads)
    filter_backends = (filters.DjangoFilterBackend, SearchFilter, OrderingFilter)
    filterset_class = TicketFilter
    search_fields = ("subject", "description")
    ordering_fields = ("created", "id")
    ordering = ("id",)
    pagination_class = Pages

    def get_queryset(self) -> QuerySet[Ticket]:
        tickets: QuerySet[Ticket] = super().get_queryset()
        user = self.request.user
        if user.is_staff:
            return tickets
        return tickets.filter(assignee__in=[user.pk]) | tickets.filter(assignee=None)

    @decorators.action(detail=True, methods=["post"])
    def close(self, request: Any, pk: str) -> Response:
        """Close a ticket that needs no more help."""
        ticket = self.get_object()
        ticket.status = Ticket.Status.CLOSED
        ticket.save(update_fields=["status"])
        return Response({"status": ticket.status})

    @decorators.action(detail=False)
    def counts(self, request: Any) -> Response:
        """Count the tickets."""
        return Response({"tickets": self.get_queryset().count()})


class ThreeAMinute(throttling.UserRateThrottle):  # type: ignore[misc]
    rate = "3/min"


class CustomerSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    class Meta:
        model = Customer
        fields = ("name", "city")


class CustomerViewSet(viewsets.ReadOnlyModelViewSet):  # type: ignore[misc]
    """Customers by name, for everybody, three times a minute."""

    queryset = Customer.objects.all()
    serializer_class = CustomerSerializer
    lookup_field = "name"
    throttle_classes = (ThreeAMinute,)


class ByVersion(views.APIView):  # type: ignore[misc]
    def get(self, request: Any, **kwargs: Any) -> Response:
        return Response({"version": request.version})


class ByPath(ByVersion):
    versioning_class = versioning.URLPathVersioning


class ByHeader(ByVersion):
    versioning_class = versioning.AcceptHeaderVersioning


class ByQuery(ByVersion):
    versioning_class = versioning.QueryParameterVersioning


class ByNamespace(ByVersion):
    versioning_class = versioning.NamespaceVersioning


class Taking(ByVersion):
    """Its URL also matches that of the next view."""


class Taken(ByVersion):
    pass


class Number(serializers.Serializer):  # type: ignore[misc]
    number = serializers.IntegerField(min_value=0)


class Caller(views.APIView):  # type: ignore[misc]
    """What a view knows of its caller and of its request."""

    def get(self, request: Any) -> Response:
        return Response(
            {
                "user": request.user.username,
                "auth": getattr(request.auth, "scope", None),
                "url": request.build_absolute_uri(),
                "cookies": [*request.COOKIES],
                "headers": sorted(name for name in request.META if name.startswith("HTTP_")),
                "address": request.META["REMOTE_ADDR"],
                "tenant": getattr(request, "tenant", None),
            }
        )

    def post(self, request: Any) -> Response:
        data = Number(data=request.data)
        data.is_valid(raise_exception=True)
        return Response({"double": data.validated_data["number"] * 2}, status=201)


class AsCoroutineFunction(views.APIView):  # type: ignore[misc]
    """Makes the function of a view a coroutine function."""

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        view = super().as_view(**initkwargs)

        async def call(request: Any) -> Any:
            return await sync_to_async(view)(request)

        vars(call).update(cls=cls, initkwargs=initkwargs)
        return call


class AsyncCaller(AsCoroutineFunction, Caller):
    """A view whose function is a coroutine function."""


class WritesAndFails(views.APIView):  # type: ignore[misc]
    def post(self, request: Any) -> Response:
        Customer.objects.create(name="Lost", email="lost@example.com", city="Rome")
        raise ValidationError("Not today.")


class Upload(serializers.Serializer):  # type: ignore[misc]
    title = serializers.CharField(max_length=20)
    file = serializers.FileField()


class Uploads(generics.CreateAPIView):  # type: ignore[misc]
    serializer_class = Upload
    parser_classes = (parsers.MultiPartParser,)

    def create(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        data = self.get_serializer(data=request.data)
        data.is_valid(raise_exception=True)
        file = data.validated_data["file"]
        return Response({"title": data.validated_data["title"], "text": file.read().decode()})


class Pdf(renderers.BaseRenderer):  # type: ignore[misc]
    media_type = "application/pdf"
    format = "pdf"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return b"%PDF"


class Report(views.APIView):  # type: ignore[misc]
    renderer_classes = (Pdf,)

    def get(self, request: Any) -> Response:
        return Response({})


class Outcome(views.APIView):  # type: ignore[misc]
    """Responds as its query says."""

    def get(self, request: Any) -> Any:
        return OUTCOMES[request.query_params["outcome"]]()


def fail() -> None:
    raise RuntimeError("The secret is 12345")


OUTCOMES: Any = {
    "text": lambda: HttpResponse("Hello", content_type="text/plain"),
    "latin": lambda: HttpResponse("Zürich", content_type="text/plain; charset=iso-8859-1"),
    "unknown": lambda: HttpResponse(b"Bern", content_type="text/plain; charset=fantasy"),
    "image": lambda: HttpResponse(b"\x89PNG", content_type="image/png"),
    "list": lambda: Response([1, 2]),
    "nothing": lambda: Response(status=204),
    "large": lambda: Response("x" * 1_000_001),
    "stream": lambda: StreamingHttpResponse([b"a", b"b"], content_type="text/plain"),
    "file": lambda: FileResponse(BytesIO(b"PK"), filename="all.zip"),
    "rows": lambda: FileResponse(BytesIO(b"a,b"), as_attachment=True, filename="all.csv"),
    "archive": lambda: FileResponse(BytesIO(b"x" * 1_000_001), filename="all.zip"),
    "redirect": lambda: HttpResponse(status=302, headers={"Location": "/admin/"}),
    "conflict": lambda: Response({"detail": "It was closed."}, status=409),
    "page": lambda: HttpResponse("<h1>Bad</h1>", status=400),
    "failure": lambda: Response({"trace": "secret"}, status=500),
    "exception": fail,
    "codes": lambda: Response({"a": [{}, {"b": ["Bad."]}], "non_field_errors": ["X"]}, status=422),
}


@decorators.api_view(["GET"])
def ping(request: Any, name: str) -> Response:
    """Answer."""
    return Response({"pong": name})


class Things(mixins.ListModelMixin, viewsets.GenericViewSet):  # type: ignore[misc]
    """A view set that no URL serves."""

    queryset = Ticket.objects.all()
    serializer_class = TicketSerializer


class Commands(viewsets.GenericViewSet):  # type: ignore[misc]
    """A view set that has neither a list nor single objects."""

    serializer_class = TicketSerializer

    @decorators.action(detail=False, methods=["post"])
    def restart(self, request: Any) -> Response:
        return Response({})
