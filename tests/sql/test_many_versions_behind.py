"""More schema versions than diffs are kept for, between two looks: seeds 002 and 003."""

from exuvia.catalog import meta
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.catalog.model import TableInfo
from support.world import World, rows, run

VERSIONS = meta.DIFFS_KEPT + 1


def test_the_world_is_loaded_once_and_an_unrelated_transaction_commits(monkeypatch) -> None:
    with World() as world:
        changing, writing = world.session(), world.session()
        run(changing, "CREATE TABLE t (a INT PRIMARY KEY)")
        run(changing, "CREATE TABLE u (a INT PRIMARY KEY)")
        schemas = Schemas(world.store)
        behind = Loader(schemas)
        with world.store.read() as txn:
            for name in "tu":
                schemas.table(txn, "test", name)
        behind.step(0.0)
        assert schemas.cached == 2

        run(writing, "BEGIN")
        run(writing, "INSERT INTO u VALUES (1)")
        before = behind.version
        for n in range(VERSIONS):
            run(changing, f"ALTER TABLE t COMMENT = '{n}'")
        run(writing, "INSERT INTO u VALUES (2)")
        run(writing, "COMMIT")
        assert rows(changing, "SELECT a FROM u") == [[1], [2]]

        loads: list[int] = []
        decode = meta.get_table

        def counted(txn, table_id) -> TableInfo | None:
            loads.append(table_id)
            return decode(txn, table_id)

        monkeypatch.setattr(meta, "get_table", counted)
        behind.step(1.0)
        assert behind.version - before == VERSIONS
        assert (schemas.cached, loads) == (0, []), "all is forgotten at once, nothing read for it"
        with world.store.read() as txn:
            for _ in range(2):
                assert schemas.table(txn, "test", "t").info.comment == str(VERSIONS - 1)
                schemas.table(txn, "test", "u")
        assert len(loads) == 2, "each table that is used is loaded once"
