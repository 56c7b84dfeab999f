"""ADMIN CHECKSUM TABLE, ADMIN RECOVER INDEX, ADMIN CLEANUP INDEX (TiDB 8.5's columns).

They run on the pipeline's kernels in this process, beside writers; a KILL ends them between two
waves.
"""

from collections.abc import Generator

from exuvia.base.limits import SPAN_ROWS
from exuvia.base.mysql_errors import ErrKeyDoesNotExist
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.sql.nodes.session import AdminChecksum, AdminRepairIndex
from exuvia.sql.result import Result, Row
from exuvia.sql.session.running import Running
from exuvia.sql.show.admin import existing_table
from exuvia.sql.show.listing import columns_of

_CHECKSUM = "Db_name Table_name Checksum_crc64_xor:22 Total_kvs# Total_bytes#"


def checksum(session: Running, node: AdminChecksum, text: str) -> Result:
    """ADMIN CHECKSUM TABLE: of rows and public indexes. Raises 1046, 1146."""
    rows: list[Row] = []
    for name in node.tables:
        table = existing_table(session, name)
        total, pairs, size = 0, 0, 0
        for part in table.parts:
            for found in _checksums(session, part):
                total, pairs, size = total ^ found[0], pairs + found[1], size + found[2]
        rows.append([table.database.db_name.O, table.info.name.O, str(total), pairs, size])
    return Result(columns_of(_CHECKSUM), rows)


def _checksums(session: Running, part: Table) -> list[tuple[int, int, int]]:
    from exuvia.pipeline.spans import cut  # brings pyarrow: only for who asks for it
    from exuvia.pipeline.task import Outcome, Task
    from exuvia.pipeline.verify import done_here, order_for

    store = session.services.store
    sides: list[tuple[int, Span]] = [(0, part.row_span())]
    for index in part.info.indexes:
        if index.state == SchemaState.PUBLIC and not index.exuvia_clustered:
            sides.append((index.id, part.index_span(index)))
    order = order_for(part, ())
    tasks: list[Task] = []
    for index_id, whole in sides:
        for span in cut(store, [whole], SPAN_ROWS, store.count(whole), 1):
            each = Task(
                kind="checksum", order=order, span=span, ordinal=len(tasks), index_id=index_id
            )
            tasks.append(each)

    def waves() -> Generator[list[Task], list[Outcome], list[tuple[int, int, int]]]:
        found = []
        for task in tasks:
            session.check_interrupt()
            outcomes = yield [task]
            found.append(outcomes[0].result)
        return found

    return done_here(store, waves())


def repair(session: Running, node: AdminRepairIndex, text: str) -> Result:
    """ADMIN RECOVER | CLEANUP INDEX t i. Raises 1046, 1146, 1176."""
    from exuvia.pipeline.repair import Repair  # brings pyarrow: only for who asks for it
    from exuvia.pipeline.verify import done_here, order_for

    table = existing_table(session, node.table)
    index = table.info.index(node.index)
    if index is None or index.state != SchemaState.PUBLIC:
        raise ErrKeyDoesNotExist(node.index, table.info.name.O)
    services = session.services
    done = scanned = 0
    for part in () if index.exuvia_clustered else table.parts:
        session.check_interrupt()
        mending = Repair(services.store, part, index, services.member.guard)
        method = mending.recover if node.kind == "recover" else mending.cleanup
        scanned += done_here(services.store, method(order_for(part, (index.id,))))
        done += mending.done
    if node.kind == "recover":
        return Result(columns_of("ADDED_COUNT# SCAN_COUNT#"), [[done, scanned]])
    return Result(columns_of("REMOVED_COUNT#"), [[done]])
