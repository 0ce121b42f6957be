from django.db import models
from django.utils.translation import gettext_lazy as _


class Genre(models.TextChoices):
    FANTASY = "f", _("Fantasy")
    SCIENCE = "s", _("Science fiction")


class Author(models.Model):
    name = models.CharField(max_length=100)


class Book(models.Model):
    title = models.CharField(max_length=100, unique=True)
    genre = models.CharField(max_length=1, choices=Genre.choices, default=Genre.FANTASY)
    price = models.DecimalField(max_digits=6, decimal_places=2)
    published = models.DateField()
    is_public = models.BooleanField(default=True)
    text = models.FileField(upload_to="books", blank=True)
    cover = models.ImageField(upload_to="covers", blank=True)
    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
