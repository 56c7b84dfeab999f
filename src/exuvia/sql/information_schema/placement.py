"""PLACEMENT_POLICIES, ATTRIBUTES and RESOURCE_GROUPS: kept, and without effect (catalog/placement).

RESOURCE_GROUPS has TiDB's columns, not MySQL's, whose table of that name is about threads."""

from collections.abc import Iterable

from exuvia.catalog import placement
from exuvia.catalog.model import PartitionDefinition
from exuvia.kv import keys
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context


def _policies(context: Context) -> Iterable[Row]:
    for each in placement.policies(context.txn):
        said = each.settings
        row: Row = [each.id, "def", each.name.O, said.primary_region, said.regions]
        row += [said.constraints, said.leader_constraints, said.follower_constraints]
        row += [said.learner_constraints, said.schedule, said.followers, said.learners]
        yield row


def _attributes(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        place = f"schema/{database.db_name.O}/{table.name.O}"
        if table.exuvia_attributes:
            yield _labelled(place, table.exuvia_attributes, table.physical_ids)
        cut: tuple[PartitionDefinition, ...] = ()
        if table.partition is not None:
            cut = table.partition.definitions
        for each in cut:
            if each.exuvia_attributes:
                yield _labelled(f"{place}/{each.name.O}", each.exuvia_attributes, (each.id,))


def _labelled(place: str, text: str, ids: Iterable[int]) -> Row:
    quoted = ",".join(f'"{part}"' for part in text.split(","))
    spans = [keys.table_span(each) for each in ids]
    ranges = ", ".join(f"[{span.start.hex()}, {span.end.hex()}]" for span in spans)
    return [place, "key-range", quoted, ranges]


def _groups(context: Context) -> Iterable[Row]:
    for each in placement.groups(context.txn):
        row: Row = [each.name.O, each.rate, each.priority, each.burstable or "OFF"]
        yield [*row, each.query_limit or None, each.background or None]


TABLES = (
    (
        "PLACEMENT_POLICIES",
        "POLICY_ID# CATALOG_NAME:512 POLICY_NAME PRIMARY_REGION:1024 REGIONS:1024"
        " CONSTRAINTS:1024 LEADER_CONSTRAINTS:1024 FOLLOWER_CONSTRAINTS:1024"
        " LEARNER_CONSTRAINTS:1024 SCHEDULE:20 FOLLOWERS# LEARNERS#",
        _policies,
    ),
    ("ATTRIBUTES", "ID:256 TYPE:16 ATTRIBUTES:256 RANGES:65535", _attributes),
    (
        "RESOURCE_GROUPS",
        "NAME:32 RU_PER_SEC:21 PRIORITY:6 BURSTABLE:9 QUERY_LIMIT:256 BACKGROUND:256",
        _groups,
    ),
)
