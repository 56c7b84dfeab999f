"""PLACEMENT_POLICIES, ATTRIBUTES and RESOURCE_GROUPS: stored, but without effect
(catalog/placement).

RESOURCE_GROUPS has TiDB's columns. MySQL's table of that name is about threads."""

from collections.abc import Iterable

from exuvia.catalog import placement
from exuvia.catalog.model import PartitionDefinition
from exuvia.kv import keys
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context


def _policies(context: Context) -> Iterable[Row]:
    for policy in placement.policies(context.txn):
        settings = policy.settings
        row: Row = [policy.id, "def", policy.name.O, settings.primary_region, settings.regions]
        row += [settings.constraints, settings.leader_constraints, settings.follower_constraints]
        row += [
            settings.learner_constraints,
            settings.schedule,
            settings.followers,
            settings.learners,
        ]
        yield row


def _attributes(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        place = f"schema/{database.db_name.O}/{table.name.O}"
        if table.exuvia_attributes:
            yield _labelled(place, table.exuvia_attributes, table.physical_ids)
        cut: tuple[PartitionDefinition, ...] = ()
        if table.partition is not None:
            cut = table.partition.definitions
        for definition in cut:
            if definition.exuvia_attributes:
                yield _labelled(
                    f"{place}/{definition.name.O}", definition.exuvia_attributes, (definition.id,)
                )


def _labelled(place: str, text: str, ids: Iterable[int]) -> Row:
    quoted = ",".join(f'"{part}"' for part in text.split(","))
    spans = [keys.table_span(table_id) for table_id in ids]
    ranges = ", ".join(f"[{span.start.hex()}, {span.end.hex()}]" for span in spans)
    return [place, "key-range", quoted, ranges]


def _groups(context: Context) -> Iterable[Row]:
    for group in placement.groups(context.txn):
        row: Row = [group.name.O, group.rate, group.priority, group.burstable or "OFF"]
        yield [*row, group.query_limit or None, group.background or None]


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
