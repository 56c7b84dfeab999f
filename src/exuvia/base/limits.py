"""Limits that users of MySQL and TiDB know (MySQL manual, "Limits"; FACTS of TiDB 8.5)."""

IDENTIFIER_CHARS = 64
USER_CHARS = 32
HOST_CHARS = 255
INDEXES_PER_TABLE = 64
KEY_PARTS = 16
KEY_BYTES = 3072
COLUMNS = 1017
RESULT_COLUMNS = (1 << 16) - 1
"""The most that `*` and `t.*` may add up to, as in MySQL's answer to COM_STMT_PREPARE. Planning
takes a kilobyte per column, and three characters may name a thousand of them."""
PACKET_BYTES = 64 << 20
ERROR_COUNT_LIMIT = 512
REORG_WORKERS = (1, 4, 256)  # least, default, most
REORG_BATCH_ROWS = (32, 256, 10240)
DEFAULT_LEASE_S = 45.0
SNAPSHOT_IDLE_S = 60.0
SNAPSHOT_QUERY_S = 600.0
SPAN_ROWS = 1_250_000
EXCHANGED_ROWS = 100_000
"""Backfills of smaller tables are never spilled: rewriting their few index pages is cheap."""
INLINE_ROWS = 50_000
COLD_INLINE = 8
PREFLIGHT_ROWS = 50_000
PARTITIONS = 8192
TRANSACTION_BYTES = 100 << 20
ENTRY_BYTES = 6 << 20
