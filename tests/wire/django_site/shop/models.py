"""The models as the last migration leaves them."""

from django.db import models
from django.db.models.functions import Lower


class Author(models.Model):
    full_name = models.CharField(max_length=250, default="anonymous", db_index=True)
    email = models.EmailField(unique=True, null=True)
    bio = models.TextField(default="")
    rank = models.BigIntegerField(null=True, unique=True)


class Label(models.Model):
    slug = models.SlugField(max_length=80, unique=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE)


class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    coauthor = models.ForeignKey(Author, null=True, on_delete=models.PROTECT, related_name="co")
    editor = models.ForeignKey("auth.User", on_delete=models.SET_NULL, null=True)
    title = models.CharField(max_length=200)
    subtitle = models.CharField(max_length=50, null=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    meta = models.JSONField(default=dict)
    tags = models.ManyToManyField(Label)
    uid = models.UUIDField(null=True)
    pages = models.PositiveIntegerField(default=1)
    length = models.DurationField(null=True)
    ip = models.GenericIPAddressField(null=True)
    raw = models.BinaryField(null=True)
    at = models.DateTimeField(auto_now_add=True)
    clock = models.TimeField(null=True)
    weight = models.DecimalField(max_digits=10, decimal_places=3, null=True)
    stars = models.IntegerField(default=0, db_default=5)
    on = models.BooleanField(default=True)
    cost = models.GeneratedField(
        expression=models.F("price") * models.F("pages"),
        output_field=models.DecimalField(max_digits=12, decimal_places=2),
        db_persist=True,
    )

    class Meta:
        unique_together = (("author", "title", "pages"),)
        constraints = (
            models.CheckConstraint(condition=models.Q(price__gte=1), name="price_gte_1"),
            models.UniqueConstraint(fields=["author", "uid"], name="uq_uid"),
            models.UniqueConstraint(Lower("title"), "author", name="uq_lower"),
        )
        indexes = (
            models.Index(fields=["at", "price"], name="by_at_price"),
            models.Index(Lower("title"), name="by_lower"),
        )
