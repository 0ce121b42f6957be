"""A form with a field of each kind."""

from __future__ import annotations

from django import forms
from django.contrib.auth.models import User


class EveryField(forms.Form):
    text = forms.CharField(min_length=2, max_length=5, help_text="A few characters")
    code = forms.RegexField(r"^[a-z]+$", required=False)
    odd = forms.RegexField(r"^(?!x).*$", required=False)
    count = forms.IntegerField(min_value=1, max_value=9)
    price = forms.DecimalField(required=False)
    on = forms.DateField(required=False)
    at = forms.SplitDateTimeField(required=False)
    takes = forms.DurationField(required=False)
    id = forms.UUIDField(required=False)
    is_new = forms.BooleanField(required=False, initial=True)
    maybe = forms.NullBooleanField(required=False)
    size = forms.ChoiceField(choices=[("", "-"), ("s", "Small"), ("l", "Large")], required=False)
    tags = forms.MultipleChoiceField(choices=[("a", "a"), ("b", "b")], required=False)
    computed = forms.ChoiceField(choices=lambda: [("x", "X")], required=False)
    extra = forms.JSONField(required=False)
    users = forms.ModelMultipleChoiceField(User.objects.all(), required=False)
    fixed = forms.CharField(disabled=True, initial="fixed")
    file = forms.FileField(required=False, max_length=20)
