"""The REST API of the helpdesk, whose views are tools as well (see ``rest``)."""

from typing import Any

from rest_framework.decorators import action
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.pagination import PageNumberPagination
from rest_framework.permissions import DjangoModelPermissionsOrAnonReadOnly
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.serializers import CharField, ModelSerializer
from rest_framework.viewsets import ModelViewSet

from example_site.helpdesk.models import Comment, Ticket


class CommentSerializer(ModelSerializer):  # type: ignore[misc]
    author_name = CharField(read_only=True)

    class Meta:
        model = Comment
        fields = ("id", "author_name", "text", "created")


class TicketSerializer(ModelSerializer):  # type: ignore[misc]
    customer_name = CharField(source="customer.name", read_only=True)
    comments = CommentSerializer(many=True, read_only=True)

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
            "created",
            "comments",
        )
        read_only_fields = ("status", "created")


class Pages(PageNumberPagination):  # type: ignore[misc]
    page_size = 10


class TicketViewSet(ModelViewSet):  # type: ignore[misc]
    """Everybody reads tickets; who may change them is a matter of Django's permissions."""

    queryset = (
        Ticket.objects.select_related("customer")
        .prefetch_related("comments__author")
        .order_by("-created", "-pk")
    )
    serializer_class = TicketSerializer
    permission_classes = (DjangoModelPermissionsOrAnonReadOnly,)
    filter_backends = (SearchFilter, OrderingFilter)
    search_fields = ("subject", "description", "customer__name")
    ordering_fields = ("created", "priority")
    pagination_class = Pages

    @action(detail=True, methods=["post"])  # type: ignore[untyped-decorator]
    def reopen(self, request: Any, pk: str) -> Response:
        """Open a closed ticket again."""
        ticket = self.get_object()
        if ticket.status != Ticket.Status.CLOSED:
            return Response({"detail": "The ticket is not closed."}, status=409)
        ticket.status, ticket.closed = Ticket.Status.OPEN, None
        ticket.save(update_fields=["status", "closed"])
        return Response(self.get_serializer(ticket).data)


router = SimpleRouter()
router.register("tickets", TicketViewSet)
urls = router.urls
