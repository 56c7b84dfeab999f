"""Alembic migrates a shop to its head and back while a client keeps writing it.

The migrations are in `tests/wire/alembic_shop`.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

from support.node_processes import NodeProcess
from wire.test_sqlalchemy import METADATA, engine_on

SHOP = Path(__file__).parent / "alembic_shop"


def configuration(engine: sa.Engine) -> Config:
    """The settings of an alembic.ini."""
    config = Config()
    config.set_main_option("script_location", str(SHOP))
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = engine.url
    return config


class Writer:
    """A client that orders, changes and reads in short transactions, and counts."""

    def __init__(self, node: NodeProcess, database: str) -> None:
        self.orders = 0
        self.errors: list[Exception] = []
        self._connection = node.connect(database, autocommit=False)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with self._connection as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.005):
                n = self.orders + 1
                row = (n, n % 10 + 1, n)
                try:
                    cursor.execute(
                        "INSERT INTO orders (id, buyer, amount) VALUES (%s, %s, %s)", row
                    )
                    cursor.execute("UPDATE orders SET state = state + 1 WHERE id = %s", (n,))
                    cursor.execute("SELECT amount, state FROM orders WHERE id = %s", (n,))
                    assert cursor.fetchone() == (n, 1)
                    connection.commit()
                    self.orders += 1
                except (pymysql.err.Error, AssertionError) as error:
                    self.errors.append(error)
                    return

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Writes until the block ends."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(30)


@pytest.fixture
def shop(node: NodeProcess) -> Iterator[sa.Engine]:
    engine = engine_on(node, "alembic_shop")
    yield engine
    engine.dispose()


def test_a_chain_of_migrations_under_a_writing_client(node: NodeProcess, shop: sa.Engine) -> None:
    config = configuration(shop)
    command.upgrade(config, "a")
    writer = Writer(node, "alembic_shop")
    with writer.writing():
        command.upgrade(config, "head")
        inspector = sa.inspect(shop)
        columns = {column["name"]: column for column in inspector.get_columns("orders")}
        assert list(columns) == [*("id", "buyer", "amount", "note", "state", "placed", "currency")]
        assert isinstance(columns["amount"]["type"], sa.Numeric)
        assert columns["currency"]["default"] == "'EUR'"
        [key] = inspector.get_foreign_keys("orders")
        assert (key["name"], key["options"]) == ("fk_buyer", {"ondelete": "CASCADE"})
        assert {index["name"] for index in inspector.get_indexes("orders")} == {
            "by_buyer",
            "by_note",
        }
        assert inspector.get_check_constraints("orders")[0]["name"] == "amount_is_positive"
        assert inspector.get_table_comment("orders") == {"text": "what was bought"}
        assert "basket" in inspector.get_table_names()
        command.downgrade(config, "a")
    assert writer.errors == []
    assert writer.orders > 100
    with shop.connect() as connection:
        count = "SELECT COUNT(*), SUM(state), MAX(id) FROM orders"
        assert connection.execute(sa.text(count)).one() == (writer.orders,) * 3
        checked = connection.exec_driver_sql("ADMIN CHECK TABLE orders")
        assert not checked.returns_rows or checked.all() == []
    first = [column["name"] for column in sa.inspect(shop).get_columns("orders")]
    assert first == ["id", "buyer", "amount", "note", "state"]
    command.downgrade(config, "base")
    assert sa.inspect(shop).get_table_names() == ["alembic_version"]


def test_autogenerate_finds_no_difference_after_create_all(node: NodeProcess) -> None:
    engine = engine_on(node, "alembic_same")
    METADATA.create_all(engine)
    options = {"compare_type": True, "compare_server_default": True}
    with engine.connect() as connection:
        differences = compare_metadata(
            MigrationContext.configure(connection, opts=options), METADATA
        )
    engine.dispose()
    assert differences == [], differences


def test_a_failed_migration_leaves_its_change_undone(shop: sa.Engine) -> None:
    with shop.begin() as connection:
        connection.execute(sa.text("CREATE TABLE doubles (a INT)"))
        connection.execute(sa.text("INSERT INTO doubles VALUES (1), (1)"))
    with pytest.raises(sa.exc.IntegrityError), shop.begin() as connection:
        connection.execute(sa.text("ALTER TABLE doubles ADD COLUMN b INT, ADD UNIQUE one (a)"))
    assert [column["name"] for column in sa.inspect(shop).get_columns("doubles")] == ["a"]
