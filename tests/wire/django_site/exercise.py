"""Exercises a Django application; the process fails at the first wrong answer."""

import datetime
import uuid
from decimal import Decimal
from zoneinfo import ZoneInfo

import django

django.setup()

from django.contrib.auth.models import Permission, User  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.db.models import functions as f  # noqa: E402
from django.utils import timezone  # noqa: E402
from shop.models import Author, Book, Label  # noqa: E402


def a_shop() -> tuple[Author, Book]:
    """One author, one book with every kind of field, read back as they were written."""
    editor = User.objects.create_user("ann", "ann@x.org", "secret")
    author = Author.objects.create(full_name="Ann Émile", email="a@x.org", bio="b")
    book = Book.objects.create(
        author=author, editor=editor, title="One", price="2.50", pages=3, uid=uuid.UUID(int=7),
        meta={"k": [1, {"z": None}], "s": "x"}, length=datetime.timedelta(hours=2, microseconds=5),
        ip="::1", raw=b"\0\xff", clock=datetime.time(1, 2, 3, 4), weight="1.125",
    )  # fmt: skip
    book.tags.set([Label.objects.create(slug=f"tag-{n}") for n in range(3)])
    book.refresh_from_db()
    assert book.cost == Decimal("7.50") and book.weight == Decimal("1.125") and book.on is True
    assert book.meta == {"k": [1, {"z": None}], "s": "x"} and book.uid == uuid.UUID(int=7)
    assert book.length == datetime.timedelta(hours=2, microseconds=5) and book.ip == "::1"
    assert bytes(book.raw) == b"\0\xff" and book.clock == datetime.time(1, 2, 3, 4)
    assert timezone.now() - book.at < datetime.timedelta(minutes=1)
    assert User.objects.get(username="ann").check_password("secret")
    return author, book


def constraints_hold(author: Author) -> None:
    """Each violation is an IntegrityError, and only the block in which it happens is rolled
    back."""
    bad = [
        {"title": "cheap", "price": "0.99"},
        {"title": "One", "price": 3, "pages": 3},
        {"title": "oNE", "price": 3},
        {"title": "same uid", "price": 3, "uid": uuid.UUID(int=7)},
        {"title": "no such author", "price": 3, "author_id": 10**9},
    ]
    with transaction.atomic():
        for fields in bad:
            try:
                with transaction.atomic():
                    Book.objects.create(**{"author_id": author.id, **fields})
            except IntegrityError:
                continue
            raise AssertionError(fields)
    assert Book.objects.count() == 1
    try:
        author.co.add(Book.objects.get())
        author.delete()
    except models.ProtectedError:
        Book.objects.update(coauthor=None)


def transactions_and_locks() -> None:
    """Savepoints, on_commit, SELECT FOR UPDATE in each of its forms."""
    committed: list[int] = []
    with transaction.atomic():
        author = Author.objects.select_for_update().get()
        author.full_name = "Bea"
        author.save()
        mark = transaction.savepoint()
        Author.objects.create(full_name="gone")
        transaction.savepoint_rollback(mark)
        assert len(Book.objects.select_for_update(nowait=True)) == 1
        assert len(Book.objects.select_for_update(skip_locked=True)) == 1
        joined = Book.objects.select_related("author").select_for_update(of=("self",))
        assert joined.get().author.full_name == "Bea"
        transaction.on_commit(lambda: committed.append(1))
    assert [author.full_name for author in Author.objects.all()] == ["Bea"] and committed == [1]


def many_rows() -> None:
    """bulk_create in each of its forms, bulk_update, update and delete by condition."""
    Author.objects.bulk_create([Author(full_name=f"b{n}", email=f"b{n}@x") for n in range(50)])
    again = [Author(full_name="new", email="b1@x")]
    Author.objects.bulk_create(again, update_conflicts=True, update_fields=["full_name"])
    Author.objects.bulk_create([Author(full_name="no", email="b2@x")], ignore_conflicts=True)
    assert set(Author.objects.filter(email__in=["b1@x", "b2@x"]).values_list("full_name")) == {
        ("new",), ("b2",)
    }  # fmt: skip
    changed = list(Author.objects.filter(full_name__startswith="b"))
    for n, book in enumerate(changed):
        book.rank = n
    assert Author.objects.bulk_update(changed, ["rank"]) == len(changed) == 49
    most = Author.objects.filter(rank__isnull=False)
    assert most.update(full_name=f.Concat("full_name", models.Value("!"))) == 49
    assert most.aggregate(m=models.Max("rank"), s=models.Sum("rank")) == {"m": 48, "s": 1176}
    assert sum(1 for _ in Author.objects.iterator(chunk_size=10)) == 51
    assert Author.objects.filter(rank__gte=40).delete()[0] == 9


def queries(author: Author, book: Book) -> None:
    """Joins, groups, windows, sets, JSON paths, dates in zones."""
    books = Book.objects
    assert books.filter(meta__s="x", meta__k__0=1, meta__k__1__z=None).get() == book
    assert books.filter(meta__k__contains=[1], meta__has_key="s").count() == 1
    counted = Author.objects.annotate(n=models.Count("books")).filter(n__gt=0)
    assert list(counted.values_list("full_name", "n")) == [("Bea", 1)]
    assert Author.objects.filter(books__tags__slug="tag-1").distinct().get() == author
    owns = models.Exists(books.filter(author=models.OuterRef("pk")))
    assert Author.objects.filter(owns).get() == author
    ranks = models.Window(f.RowNumber(), order_by="full_name")
    assert list(Author.objects.annotate(r=ranks).values_list("r", flat=True)[:3]) == [1, 2, 3]
    some, one = Author.objects.filter(rank__lt=3), Author.objects.filter(rank=1)
    assert (some.union(one).count(), some.intersection(one).count()) == (3, 1)
    assert some.difference(one).count() == 2
    assert Author.objects.filter(full_name__iregex="^B1.!$").count() == 10
    assert Author.objects.filter(full_name__icontains="BEA").get() == author
    tokyo = f.TruncDate("at", tzinfo=ZoneInfo("Asia/Tokyo"))
    day = books.annotate(day=tokyo).get().day
    assert day == book.at.astimezone(ZoneInfo("Asia/Tokyo")).date()
    here = timezone.localtime(book.at)  # the lookups are of the site's zone
    assert books.filter(at__date=here.date(), at__year=here.year).count() == 1
    later = books.annotate(later=models.F("at") + datetime.timedelta(days=1)).get().later
    assert later - book.at == datetime.timedelta(days=1)
    loaded = books.select_related("author", "editor").prefetch_related("tags").get()
    assert sorted(tag.slug for tag in loaded.tags.all()) == ["tag-0", "tag-1", "tag-2"]
    assert Author.objects.get_or_create(full_name="Bea")[1] is False
    assert Author.objects.update_or_create(email="u@x", defaults={"bio": "z"})[1] is True


def introspection() -> None:
    """The queries of inspectdb and of the schema editor."""
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, "shop_book")
        relations = connection.introspection.get_relations(cursor, "shop_book")
    assert constraints["PRIMARY"]["columns"] == ["id"] and constraints["price_gte_1"]["check"]
    assert constraints["uq_uid"]["unique"] and constraints["uq_uid"]["columns"] == [
        "author_id",
        "uid",
    ]
    assert relations["author_id"] == ("id", "shop_author")


if __name__ == "__main__":
    an_author, a_book = a_shop()
    constraints_hold(an_author)
    transactions_and_locks()
    many_rows()
    queries(an_author, a_book)
    introspection()
    assert Permission.objects.filter(codename="add_book").exists()
