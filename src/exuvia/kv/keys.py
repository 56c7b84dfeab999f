"""All key prefixes of the system, and the order-preserving encoding of numbers.

    m                       meta
    m/format                store format version    m/release   the program that wrote it
    m/id                    last id of a database, table or job (one counter: ids are unique)
    m/version               global schema version
    m/diff/{version}        SchemaDiff of that version
    m/db/{id}               DatabaseInfo          m/dbname/{name}        -> id
    m/dbrev/{id}            revision of a database
    m/table/{id}            TableInfo             m/name/{db}{name}      -> table id
    m/rev/{id}              revision of a table (law 1)
    m/auto/{id}             last AUTO_INCREMENT   m/rowid/{id}           last hidden row id
    m/var/{name}            global variable
    m/bindings              number of writes to mysql.bind_info; sql/statement/bindings.py
    m/member/{id}           Member                m/beat/{id}            heartbeat counter
    m/epoch                 last epoch of a member; epochs are never reused
    m/fence/{id}            a member's epoch: every commit of that member requires it (law 2)
    m/owner/{role}          Owner
    m/term/{role}           the owner's term: every write of the owner requires it
    m/sync/{job}            the version of a job's last step, which needs acknowledgement
    m/ack/{job}{member}     schema version acknowledged for a job, and the blockers
    m/reorg/{job}           a reorg's epoch: every write of its tasks requires it (law 2)
    m/group/{name}          jobs that are completed together; ddl/groups.py
    m/admin/{job}           an operator changed the job: wakes its owner
    m/undo/{job}            objects that the job dropped and that can be restored; ddl/kept.py
    m/dial/{job}            a reorg's own settings, instead of the variables'; pipeline/settings.py
    m/loaded/{job}          number of rows that a session has loaded for a job that waits for it
    m/progress/{job}{run}{task}   rows that a running task has done, for display only
    m/statsversion          last version of a row of mysql.stats_meta; stats/meta.py
    m/analyze/{n}           a question to the owner of statistics; cluster/questions.py
    m/analyzequeue/{n}      a question for the auto-analyze queue
    m/freshstats[/handle]   last version (handle) of statistics of values; stats/records.py
    m/indexstats/{table}{index}   a backfill computed its statistics; stats/ddl_handler.py
    m/statsgone/{s}{table}  statistics of dropped objects, with the time; stats/ddl_handler.py
    m/handler/{id}          the error that stops a handler of the notifier
    m/feed/{name}           the position of a reader of the feed
    m/feedposition          last position of a change in the feed
    m/skipped/{id}{job}{part}     an event that an operator let a handler skip
    m/queue/asked, answer   questions of release 0.1.0 for that queue; removed
    m/DDLJobList/{job} ...  jobs in the two-queue layout; ddl/two_queues.py
    m/ask/{member}{n}       a question to other members; cluster/questions.py
    m/told/{member}{asker}{n}     a member's answer
    m/channel/{name}        counters that `wait` waits on
    m/load/{id}             begin of a load from Spark, 0 once closed; pyspark_exuvia/staging.py
    m/staged/{id}{attempt}{n}     Arrow rows to insert
    m/unnamed/{id}          id of the unnamed table that it fills; pyspark_exuvia/parts.py
    m/written/{name}        begin of the named write; it is done, or a load is running
    m/streamed/{query}{table}     the stream's last batch there; pyspark_exuvia/sink.py
    m/fkchild/{link}        id of the table that has the foreign key; catalog/meta.py
    m/fkparent/{link}       id of the table it refers to
    m/fkorphan/{db}{name}   foreign keys that wait for a table of that name
    m/fkgone/{table}        foreign keys of a dropped table that may be restored
    m/checkname/{db}{name}{table}   the table has a CHECK of that name; catalog/meta.py
    m/checknames            the names of all CHECKs have keys
    m/ttl/{table}           rows of the table expire
    m/changelog/{table}     the table's change log is complete from the commit that put this
    m/changelogfloor/{table}      stamp of the last commit whose records were removed
    m/changelogshape/{table}      since this was put the table has its name and columns
    m/moment/{us}           position of a moment, by wall time; events/change_log.py
    m/moved                 URL of the store to which this one was moved; no joins; node/move.py
    m/filling               the move that fills this store; abandoned if the store is empty
    m/lockfloor             lock marks of commits up to this one may have been removed
    t{table}f{link}{values} mark of the last child of a referred row; sql/write/foreign_keys.py
    t{table}r{handle}       a row
    t{table}i{index}{values}[{handle}]   an index entry
    t{table}c{log}{stamp}{order}{n}   a row before a commit; kv/change_log.py
    t{table}l               written with each lock mark of that (physical) table; ddl/gc_worker.py
    t{table}lx{key}         mark of a key locked FOR UPDATE; {key}: what follows t{table} in it
    t{table}ls{key}         mark of a key locked FOR SHARE

Numbers in keys are big-endian, so that they sort. Payloads that are numbers are `number(n)`.
"""

from functools import lru_cache
from hashlib import blake2b
from struct import Struct

from exuvia.kv.packet import LONGEST_KEY, Span

_U64 = Struct(">Q")
_U32 = Struct(">I")

FORMAT = b"m/format"
RELEASE = b"m/release"
MOVED = b"m/moved"
FILLING = b"m/filling"
LAST_ID = b"m/id"
VERSION = b"m/version"
BINDINGS = b"m/bindings"
BRIEF = b"m/brief"
"""Present once all members can read table layouts in parts."""
CHECK_NAMES = b"m/checknames"
"""Present once names of CHECKs of all tables have keys: see catalog/meta.py."""
LAST_EPOCH = b"m/epoch"
READ_ONLY = b"m/readonly"
"""The strictness of the read-only modes (0: off); commits of clients require an upper limit.

Source: catalog/sysvar/variables.py."""


def number(value: int) -> bytes:
    """A u64 as a payload."""
    return _U64.pack(value)


def read_number(payload: bytes | None) -> int:
    """Inverse of `number`; an absent payload is 0."""
    return 0 if payload is None else int(_U64.unpack(payload)[0])


def u64(value: int) -> bytes:
    """An unsigned number inside a key: 8 bytes that sort."""
    return _U64.pack(value)


def i64(value: int) -> bytes:
    """A signed number inside a key: 8 bytes that sort."""
    return _U64.pack(value + (1 << 63))


def read_i64(encoded: bytes) -> int:
    """Inverse of `i64`."""
    return int(_U64.unpack(encoded)[0]) - (1 << 63)


def after(prefix: bytes) -> bytes:
    """The first key after all keys with this prefix."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1])


def span_of(prefix: bytes) -> Span:
    """All keys with this prefix."""
    return Span(prefix, after(prefix))


def meta(kind: str, *parts: int | str) -> bytes:
    """A key below `m/{kind}/`.

    Numbers have 8 bytes; names are lower-case UTF-8, ended by 0 if another part follows."""
    return _meta(kind, parts)


@lru_cache(maxsize=4096)
def _meta(kind: str, parts: tuple[int | str, ...]) -> bytes:
    """Cached, because loops use the same few keys again and again."""
    key = b"m/" + kind.encode() + b"/"
    for n, part in enumerate(parts):
        if isinstance(part, int):
            key += _U64.pack(part)
        else:
            key += part.lower().encode() + (b"\0" if n + 1 < len(parts) else b"")
    return key


def index_statistics(table: int, index: int) -> bytes:
    """Present until the event of an index is delivered, if its backfill computed statistics."""
    return meta("indexstats", table, index)


def revision(table: int) -> bytes:
    """The key of a table's revision."""
    return b"m/rev/" + _U64.pack(table)


def is_revision(key: bytes) -> bool:
    """Whether the key is that of a table's or database's revision."""
    return key.startswith((b"m/rev/", b"m/dbrev/"))


def database_revision(database: int) -> bytes:
    """The key of a database's revision."""
    return b"m/dbrev/" + _U64.pack(database)


def row_prefix(table: int) -> bytes:
    """Prefix of all rows of a (physical) table."""
    return b"t" + _U64.pack(table) + b"r"


def index_prefix(table: int, index: int) -> bytes:
    """Prefix of all entries of one index of a (physical) table."""
    return b"t" + _U64.pack(table) + b"i" + _U32.pack(index)


def mark_prefix(table: int, link: int) -> bytes:
    """Prefix of the marks that children of one foreign key leave at their parent."""
    return marks_prefix(table) + _U64.pack(link)


def marks_prefix(table: int) -> bytes:
    """Prefix of the marks of all foreign keys that refer to a table."""
    return b"t" + _U64.pack(table) + b"f"


def entries_prefix(table: int) -> bytes:
    """Prefix of all entries of all indexes of a (physical) table."""
    return b"t" + _U64.pack(table) + b"i"


def log_prefix(table: int, log: int) -> bytes:
    """Prefix of a change log of a (physical) table."""
    return b"t" + _U64.pack(table) + b"c" + _U32.pack(log)


def table_span(table: int) -> Span:
    """Rows and index entries of a (physical) table."""
    return span_of(b"t" + _U64.pack(table))


_FENCES = (b"m/rev/", b"m/dbrev/", b"m/fence/", b"m/term/", b"m/reorg/", READ_ONLY)


def is_fence(key: bytes) -> bool:
    """Whether many commits require the key and few write it: a revision, an epoch."""
    return key.startswith(_FENCES)


LOCK_FLOOR = b"m/lockfloor"
UPDATE, SHARE = b"x", b"s"
_TABLE_END = 9
_DIGEST_BYTES = 16


def lock_header(key: bytes) -> bytes:
    """The key written with each lock mark of the table of this row or index entry."""
    return key[:_TABLE_END] + b"l"


def is_lock_header(key: bytes) -> bool:
    """Whether the key is a `lock_header`."""
    return len(key) == _TABLE_END + 1 and key[:1] == b"t" and key[-1:] == b"l"


def lock_mark(mode: bytes, key: bytes) -> bytes:
    """The key of the mark that a lock of a row or an index entry leaves."""
    mark = key[:_TABLE_END] + b"l" + mode + key[_TABLE_END:]
    if len(mark) <= LONGEST_KEY:
        return mark
    cut_at = LONGEST_KEY - _DIGEST_BYTES
    return mark[:cut_at] + blake2b(mark[cut_at:], digest_size=_DIGEST_BYTES).digest()


HANDLE_AT = 10  # a row's handle begins here in its key
VALUES_AT = 14  # an index entry's values begin here in its key
