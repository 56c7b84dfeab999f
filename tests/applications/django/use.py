"""Each of the site's applications writes, changes, reads and deletes rows."""

import datetime

from allauth.account.models import EmailAddress
from django.contrib.auth.models import Group, Permission, User
from django.contrib.redirects.models import Redirect
from django.contrib.sessions.backends.db import SessionStore
from django.db import IntegrityError, transaction
from django.db.models import Count, F, Max, Q
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from oauth2_provider.models import AccessToken, Application, RefreshToken

DAY = datetime.datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)


def users() -> None:
    group = Group.objects.create(name="editors")
    group.permissions.set(Permission.objects.filter(codename__startswith="change_"))
    for n in range(20):
        user = User.objects.create(username=f"u{n}", email=f"U{n}@example.com", date_joined=DAY)
        EmailAddress.objects.create(user=user, email=user.email.lower(), verified=n % 2 == 0)
        if n % 3 == 0:
            user.groups.add(group)
    print(group.permissions.count(), group.user_set.count())
    print(*User.objects.filter(email__iexact="u7@EXAMPLE.com").values_list("username", flat=True))
    print(*EmailAddress.objects.values_list("verified").annotate(Count("id")).order_by("verified"))
    chosen = User.objects.filter(Q(groups=group) & ~Q(emailaddress__verified=True))
    print(*chosen.order_by("-id").values_list("username", "date_joined"))
    try:
        with transaction.atomic():
            User.objects.filter(username="u1").update(first_name="lost")
            User.objects.create(username="u2")
    except IntegrityError as error:
        print(error.args[0])
    print(User.objects.get(username="u1").first_name == "")
    with transaction.atomic():
        locked = User.objects.select_for_update().get(username="u3")
        locked.last_name = "Ä" * 150
        locked.save()
    print(User.objects.filter(last_name__contains="Ä").count())
    User.objects.filter(groups=group).delete()
    print(User.objects.count(), EmailAddress.objects.count())


def tasks() -> None:
    every, _ = IntervalSchedule.objects.get_or_create(every=5, period="minutes")
    nightly = CrontabSchedule.objects.create(minute="0", hour="3", timezone="Europe/Vienna")
    for n in range(6):
        schedule = {"interval": every} if n % 2 else {"crontab": nightly}
        PeriodicTask.objects.create(name=f"t{n}", task="work", args=f"[{n}]", **schedule)
    PeriodicTask.objects.filter(interval=every).update(
        total_run_count=F("total_run_count") + 3, last_run_at=DAY
    )
    print(*PeriodicTask.objects.values_list("name", "total_run_count", "last_run_at"))
    print(PeriodicTask.objects.aggregate(Max("total_run_count")))
    nightly.delete()
    print(PeriodicTask.objects.count(), CrontabSchedule.objects.count())


def tokens() -> None:
    owner = User.objects.order_by("id").first()
    site = Application.objects.create(
        name="site",
        user=owner,
        client_type=Application.CLIENT_PUBLIC,
        authorization_grant_type=Application.GRANT_PASSWORD,
        redirect_uris="https://example.com",
    )
    for n in range(4):
        token = AccessToken.objects.create(
            user=owner, application=site, token=f"a{n}", expires=DAY, scope="read"
        )
        RefreshToken.objects.create(user=owner, application=site, token=f"r{n}", access_token=token)
    print(*RefreshToken.objects.order_by("token").values_list("token", "access_token__token"))
    AccessToken.objects.filter(token__in=["a1", "a2"]).delete()
    print(*RefreshToken.objects.order_by("token").values_list("token", "access_token__token"))


def pages() -> None:
    store = SessionStore()
    store["cart"] = {"items": [1, 2, 3]}
    store.create()
    print(SessionStore(session_key=store.session_key)["cart"])
    store.delete()
    Redirect.objects.create(site_id=1, old_path="/a", new_path="/b")
    print(*Redirect.objects.values_list("site__domain", "old_path", "new_path"))


def run() -> None:
    for each in (users, tasks, tokens, pages):
        each()
