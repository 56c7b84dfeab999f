"""A handler refuses an event: ADMIN SHOW DDL NOTIFIER lists it, and an operator can skip it."""

from exuvia.events import notifier, subscribe
from support.node_processes import until
from support.world import World, error, rows, run

NOTIFIER = "ADMIN SHOW DDL NOTIFIER"


def feed_handler(session) -> dict[str, object]:
    """The row of the feed's handler, by column."""
    result = run(session, NOTIFIER)
    names = [column.name for column in result.columns]
    return next(dict(zip(names, row, strict=True)) for row in result.rows if row[1] == "feed")


def test_an_operator_sees_and_skips_a_refused_event():
    with World() as world:
        session = world.session()
        feed = world.stats.notifier.handlers[notifier.FEED]
        good = feed.call

        def refusing(txn, change):
            if "poison" in repr(change):
                raise ValueError("cannot take it")
            good(txn, change)

        feed.call = refusing
        run(session, "CREATE TABLE poison (a INT)")
        run(session, "CREATE TABLE t (a INT)")
        until(lambda: feed_handler(session)["ATTEMPTS"] >= 2)
        line = feed_handler(session)
        assert (line["LAST_ERROR"], line["LAG"]) == ("ValueError: cannot take it", 2)
        job = line["WAITS_FOR"]
        assert list(subscribe(world.store, follow=False)) == []
        skip = f"ADMIN SKIP DDL EVENT {job} FOR HANDLER"
        assert error(session, f"{skip} 2") == (1105, "HY000")  # that handler refuses no event
        assert error(session, f"ADMIN SKIP DDL EVENT {job} PART 0 FOR HANDLER 3")[0] == 1105
        run(session, f"{skip} 3")
        until(lambda: not feed_handler(session)["LAG"])
        line = feed_handler(session)
        assert (line["LAG"], line["WAITS_FOR"], line["ATTEMPTS"]) == (0, "", 0)
        assert line["SKIPPED"] == f"{job} by root@localhost"
        kinds = [repr(entry.change) for entry in subscribe(world.store, follow=False)]
        assert kinds == ["SchemaChange(create table t)"]
        until(lambda: rows(session, "SELECT * FROM mysql.ddl_notifier") == [])
