"""The API of devices: tags by name, custom fields by a dict, permissions that look at the token."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from rest_framework import permissions, serializers, viewsets
from rest_framework.authentication import TokenAuthentication

from tests.rest.trial.models import Change, Device, Tag, Token

request_of_change: ContextVar[Any] = ContextVar("request_of_change", default=None)


def change_log(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Changes that are saved during a request are logged, and no others."""

    def middleware(request: Any) -> Any:
        token = request_of_change.set(request)
        try:
            return get_response(request)
        finally:
            request_of_change.reset(token)

    return middleware


def write_change(instance: Device, **_: Any) -> None:
    """Log the user of the request, whom the authenticator of the view has set."""
    if (request := request_of_change.get()) is not None:
        Change._default_manager.create(user_name=request.user.username, device=instance.name)


class Tokens(TokenAuthentication):  # type: ignore[misc]
    model = Token

    def authenticate(self, request: Any) -> Any:
        accepted = super().authenticate(request)
        if accepted is not None:
            request._request.user = accepted[0]
        return accepted


class TokenPermissions(permissions.DjangoObjectPermissions):  # type: ignore[misc]
    """The token limits what its user may do, for the table and for each row."""

    perms_map = {
        **permissions.DjangoObjectPermissions.perms_map,
        "GET": ["%(app_label)s.view_%(model_name)s"],
    }

    def has_permission(self, request: Any, view: Any) -> bool:
        return self._may_write(request) and bool(super().has_permission(request, view))

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return self._may_write(request) and bool(super().has_object_permission(request, view, obj))

    def _may_write(self, request: Any) -> bool:
        if request.method in permissions.SAFE_METHODS or not isinstance(request.auth, Token):
            return True
        return bool(request.auth.write_enabled)


class TagSerializer(serializers.Serializer):  # type: ignore[misc]
    name = serializers.CharField(max_length=20)


class CustomFields(serializers.DictField):  # type: ignore[misc]
    """The fields that the users of a site have added."""

    def to_internal_value(self, data: Any) -> Any:
        values = super().to_internal_value(data)
        if unknown := values.keys() - {"cost_center", "floor"}:
            raise serializers.ValidationError(f"There is no field {sorted(unknown)[0]}.")
        return values


class DeviceSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    tags = TagSerializer(many=True, required=False)
    custom_fields = CustomFields(required=False)

    class Meta:
        model = Device
        fields = ("id", "name", "tags", "custom_fields")

    def update(self, instance: Device, validated_data: dict[str, Any]) -> Device:
        tags = validated_data.pop("tags", None)
        own = validated_data.pop("custom_fields", {})
        instance.custom_fields = {**instance.custom_fields, **own}
        device: Device = super().update(instance, validated_data)
        if tags is not None:
            names = [tag.get("name") for tag in tags]  # A partial update requires none.
            device.tags.set(Tag._default_manager.filter(name__in=names))
        return device


class DeviceViewSet(viewsets.ModelViewSet):  # type: ignore[misc]
    queryset = Device._default_manager.order_by("id")
    serializer_class = DeviceSerializer
    permission_classes = (TokenPermissions,)
