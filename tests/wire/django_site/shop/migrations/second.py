"""Everything changes: models and fields renamed, types, keys, indexes, constraints, rows."""

from typing import Any

from django.db import migrations, models
from django.db.models import deletion


def write_biographies(apps: Any, editor: Any) -> None:
    """Rows made before the column."""
    authors = apps.get_model("shop", "Author").objects
    for author in authors.filter(bio=""):
        author.bio = f"{author.full_name} wrote."
        author.save()


def forget_biographies(apps: Any, editor: Any) -> None:
    """The way back."""
    apps.get_model("shop", "Author").objects.update(bio="")


class Migration(migrations.Migration):
    dependencies = [("shop", "first")]
    operations = [
        migrations.RenameModel("Tag", "Label"),
        migrations.RenameField("Label", "word", "slug"),
        migrations.AlterField("Label", "slug", models.SlugField(max_length=80, unique=True)),
        migrations.AddField(
            "Label",
            "parent",
            models.ForeignKey("shop.Label", null=True, on_delete=deletion.CASCADE),
        ),
        migrations.RenameField("Author", "name", "full_name"),
        migrations.AlterField(
            "Author",
            "full_name",
            models.CharField(max_length=250, default="anonymous", db_index=True),
        ),
        migrations.AddField("Author", "bio", models.TextField(default="")),
        migrations.AddField("Author", "rank", models.BigIntegerField(null=True, unique=True)),
        migrations.RemoveField("Author", "born"),
        migrations.AlterField(
            "Book", "weight", models.DecimalField(max_digits=10, decimal_places=3, null=True)
        ),
        migrations.AlterField("Book", "stars", models.IntegerField(default=0, db_default=5)),
        migrations.AlterField("Book", "title", models.CharField(max_length=200)),
        migrations.AddField("Book", "subtitle", models.CharField(max_length=50, null=True)),
        migrations.AddField(
            "Book",
            "coauthor",
            models.ForeignKey(
                "shop.Author", null=True, on_delete=deletion.PROTECT, related_name="co"
            ),
        ),
        migrations.AlterUniqueTogether("Book", {("author", "title", "pages")}),
        migrations.RemoveConstraint("Book", "price_gte_0"),
        migrations.AddConstraint(
            "Book",
            models.CheckConstraint(condition=models.Q(price__gte=1), name="price_gte_1"),
        ),
        migrations.RemoveIndex("Book", "by_price_at"),
        migrations.AddIndex("Book", models.Index(fields=["at", "price"], name="by_at_price")),
        migrations.RunPython(write_biographies, forget_biographies),
    ]
