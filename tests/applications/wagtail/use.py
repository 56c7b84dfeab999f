"""A tree of pages with revisions, moved and removed, redirects and collections."""

from django.contrib.auth.models import User
from wagtail.contrib.redirects.models import Redirect
from wagtail.models import Collection, Page, Site


def pages() -> None:
    root = Page.objects.get(depth=1)
    for section in range(3):
        parent = root.add_child(instance=Page(title=f"s{section}", slug=f"s{section}"))
        for n in range(4):
            page = parent.add_child(instance=Page(title=f"Ä {n}", slug=f"p{n}", live=n % 2 == 0))
            page.title += "!"
            page.save_revision(user=User.objects.get(username="author")).publish()
    moved = Page.objects.get(path="000100020002")
    moved.slug = "moved"
    moved.save()
    moved.move(Page.objects.get(title="s2"), pos="first-child")
    print(*Page.objects.order_by("path").values_list("path", "depth", "numchild", "title"))
    Page.objects.get(title="s1").delete()
    print(Page.objects.live().descendant_of(root).count(), Page.objects.filter(slug="p1").count())
    print(Page.objects.filter(title="ä 0!").count())
    site = Site.objects.get()
    Redirect.objects.create(old_path="/a", site=site, redirect_page=Page.objects.get(title="s2"))
    print(*Redirect.objects.values_list("old_path", "site__hostname", "redirect_page__slug"))
    print(Collection.get_first_root_node().add_child(name="c").path)


def run() -> None:
    User.objects.create(username="author")
    pages()
