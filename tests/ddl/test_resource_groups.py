"""Resource groups: kept and shown with TiDB's checks; nothing is slowed."""

import pytest

from exuvia.base.errors import Refused
from support.world import World, rows, run

LISTED = "SELECT * FROM information_schema.resource_groups ORDER BY name"
DEFAULT = ["default", "UNLIMITED", "MEDIUM", "UNLIMITED", None, None]


@pytest.fixture
def session():
    with World() as world:
        yield world.session()


def error(session, text):
    with pytest.raises(Refused) as found:
        run(session, text)
    return found.value.code, found.value.message


def test_a_group_is_made_changed_shown_and_dropped_by_jobs(session):
    assert rows(session, LISTED) == [DEFAULT]
    run(session, "CREATE RESOURCE GROUP g RU_PER_SEC = 100 BURSTABLE")
    shown = "CREATE RESOURCE GROUP `g` RU_PER_SEC=100, PRIORITY=MEDIUM, BURSTABLE(MODERATED)"
    assert rows(session, "SHOW CREATE RESOURCE GROUP g") == [["g", shown]]
    run(session, "ALTER RESOURCE GROUP g PRIORITY = HIGH")  # what is not said stays
    limit = "QUERY_LIMIT = (EXEC_ELAPSED='60s', ACTION=KILL, WATCH=EXACT DURATION='10m')"
    run(session, f"ALTER RESOURCE GROUP g {limit} BACKGROUND = (TASK_TYPES='br,ddl')")
    text = rows(session, "SHOW CREATE RESOURCE GROUP g")[0][1]
    run(session, "DROP RESOURCE GROUP g")
    run(session, text)  # what it says makes the same again
    assert rows(session, LISTED)[1] == [
        *("g", "100", "HIGH", "MODERATED"),
        'EXEC_ELAPSED="60s", ACTION=KILL, WATCH=EXACT DURATION="10m"',
        "TASK_TYPES='br,ddl'",
    ]
    run(session, "ALTER RESOURCE GROUP g QUERY_LIMIT = NULL, BURSTABLE = OFF")
    assert rows(session, LISTED)[1][3:5] == ["OFF", None]
    run(session, "ALTER RESOURCE GROUP default PRIORITY = LOW")
    assert rows(session, LISTED)[0][2] == "LOW"
    types = [each[3] for each in rows(session, "ADMIN SHOW DDL JOBS 3")]
    assert types[:2] == ["alter resource group"] * 2


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("CREATE RESOURCE GROUP g PRIORITY = LOW", 1105, "unknown resource group mode"),
        (f"CREATE RESOURCE GROUP {'g' * 33} RU_PER_SEC = 1", 1105, "resource group name too long"),
        ("CREATE RESOURCE GROUP default RU_PER_SEC = 1", 8248, "already exists"),
        ("ALTER RESOURCE GROUP x RU_PER_SEC = 1", 8249, "Unknown resource group 'x'"),
        ("DROP RESOURCE GROUP x", 8249, "Unknown resource group 'x'"),
        ("DROP RESOURCE GROUP default", 1105, "can't drop reserved resource group"),
        ("SET RESOURCE GROUP x", 8249, "Unknown resource group 'x'"),
        ("SHOW CREATE RESOURCE GROUP x", 8249, "Unknown resource group 'x'"),
        ("CREATE RESOURCE GROUP g RU_PER_SEC=1 QUERY_LIMIT=(ACTION=KILL)", 1105, "at least one"),
        (
            "CREATE RESOURCE GROUP g RU_PER_SEC=1 QUERY_LIMIT=(EXEC_ELAPSED='1 day', ACTION=KILL)",
            1105,
            "invalid duration",
        ),
        ("CREATE USER u RESOURCE GROUP x", 8249, "Unknown resource group 'x'"),
        ("CREATE RESOURCE GROUP g NONSENSE", 1064, "syntax"),
    ],
)
def test_what_is_refused(session, text, code, said):
    found = error(session, text)
    assert found[0] == code and said in found[1], found
    assert rows(session, LISTED) == [DEFAULT]


def test_if_exists_and_if_not_exists_are_notes(session):
    for text, code in (
        ("CREATE RESOURCE GROUP IF NOT EXISTS default RU_PER_SEC = 1", 8248),
        ("ALTER RESOURCE GROUP IF EXISTS x RU_PER_SEC = 1", 8249),
        ("DROP RESOURCE GROUP IF EXISTS x", 8249),
    ):
        run(session, text)
        assert [each.code for each in session.warnings] == [code]


def test_without_resource_control_all_is_refused(session):
    run(session, "SET GLOBAL tidb_enable_resource_control = OFF")
    for text in ("CREATE RESOURCE GROUP g RU_PER_SEC = 1", "SET RESOURCE GROUP default"):
        assert error(session, text)[0] == 8250
