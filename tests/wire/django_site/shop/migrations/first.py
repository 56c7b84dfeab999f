"""The shop as it opened."""

from django.conf import settings
from django.db import migrations, models
from django.db.models import deletion
from django.db.models.functions import Lower

KEY = {"auto_created": True, "primary_key": True, "serialize": False, "verbose_name": "ID"}
ID = ("id", models.BigAutoField(**KEY))
BOOK = [
    ID,
    ("title", models.CharField(db_index=True, max_length=200)),
    ("price", models.DecimalField(decimal_places=2, max_digits=8)),
    ("meta", models.JSONField(default=dict)),
    ("uid", models.UUIDField(null=True)),
    ("pages", models.PositiveIntegerField(default=1)),
    ("length", models.DurationField(null=True)),
    ("ip", models.GenericIPAddressField(null=True)),
    ("raw", models.BinaryField(null=True)),
    ("at", models.DateTimeField(auto_now_add=True)),
    ("clock", models.TimeField(null=True)),
    ("weight", models.FloatField(null=True)),
    ("stars", models.PositiveSmallIntegerField(db_default=0, default=0)),
    ("on", models.BooleanField(default=True)),
    (
        "cost",
        models.GeneratedField(
            db_persist=True,
            expression=models.F("price") * models.F("pages"),
            output_field=models.DecimalField(decimal_places=2, max_digits=12),
        ),
    ),
    (
        "author",
        models.ForeignKey(on_delete=deletion.CASCADE, related_name="books", to="shop.author"),
    ),
    (
        "editor",
        models.ForeignKey(null=True, on_delete=deletion.SET_NULL, to=settings.AUTH_USER_MODEL),
    ),
    ("tags", models.ManyToManyField(to="shop.tag")),
]


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(
            "Author",
            fields=[
                ID,
                ("name", models.CharField(max_length=100)),
                ("email", models.EmailField(max_length=254, null=True, unique=True)),
                ("born", models.DateField(null=True)),
            ],
        ),
        migrations.CreateModel("Tag", fields=[ID, ("word", models.SlugField())]),
        migrations.CreateModel(
            "Book",
            fields=BOOK,
            options={
                "indexes": [
                    models.Index(fields=["price", "-at"], name="by_price_at"),
                    models.Index(Lower("title"), name="by_lower"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(price__gte=0), name="price_gte_0"),
                    models.UniqueConstraint(fields=("author", "uid"), name="uq_uid"),
                    models.UniqueConstraint(Lower("title"), models.F("author"), name="uq_lower"),
                ],
                "unique_together": {("author", "title")},
            },
        ),
    ]
