"""Every key prefix of the system in one table, and the order-preserving encoding of numbers.

    m                       meta
    m/format                store format version    m/release   the program that wrote it
    m/id                    last id given to a database, table or job (one counter: ids are unique)
    m/version               global schema version
    m/diff/{version}        SchemaDiff of that version
    m/db/{id}               DatabaseInfo          m/dbname/{name}        -> id
    m/dbrev/{id}            revision of a database
    m/table/{id}            TableInfo             m/name/{db}{name}      -> table id
    m/rev/{id}              revision of a table (law 1)
    m/auto/{id}             last AUTO_INCREMENT   m/rowid/{id}           last hidden row id
    m/var/{name}            global variable
    m/bindings              how often mysql.bind_info was written; sql/statement/bindings.py
    m/member/{id}           Member                m/beat/{id}            heartbeat counter
    m/epoch                 last epoch given to a member; none is ever given twice
    m/fence/{id}            a member's epoch: every commit of that member requires it (law 2)
    m/owner/{role}          Owner
    m/term/{role}           its epoch: every write of the owner requires it
    m/sync/{job}            the version a job's last step published: what is to be acknowledged
    m/ack/{job}{member}     schema version acknowledged for a job, and what stands in the way
    m/reorg/{job}           a reorg's epoch: every write of its tasks requires it (law 2)
    m/group/{name}          jobs that are completed together; ddl/groups.py
    m/admin/{job}           an operator changed the job: its owner looks at it now
    m/undo/{job}            what that job dropped and can be taken back; ddl/kept.py
    m/dial/{job}            a reorg's own settings, instead of the variables'; pipeline/settings.py
    m/loaded/{job}          rows a session has loaded, all of them, for a job that waits for it
    m/progress/{job}{run}{task}   rows a running task has done, for display only
    m/statsversion          last version of a row of mysql.stats_meta; stats/meta.py
    m/analyze/{n}           an analysis asked of the owner of statistics; cluster/questions.py
    m/analyzequeue/{n}      the auto-analyze queue likewise
    m/freshstats[/handle]   last version (handle) of statistics of values; stats/records.py
    m/indexstats/{table}{index}   a fill made its statistics; stats/ddl_handler.py
    m/statsgone/{s}{table}  statistics of what is gone, and since when; stats/ddl_handler.py
    m/handler/{id}          why a handler of the notifier stands still
    m/feed/{name}           where a reader of the feed goes on
    m/feedposition          last position given to a change in the feed
    m/skipped/{id}{job}{part}     an event that an operator let a handler pass over
    m/queue/asked, answer   how release 0.1.0 asked for that queue; removed
    m/DDLJobList/{job} ...  jobs in the two-queue layout; ddl/two_queues.py
    m/ask/{member}{n}       a question to other members; cluster/questions.py
    m/told/{member}{asker}{n}     the answer of one of them
    m/channel/{name}        counters that `wait` waits on
    m/load/{id}             when a writer of Spark's began, 0 once closed; pyspark_exuvia/staging.py
    m/staged/{id}{attempt}{n}     Arrow rows that it is to insert
    m/unnamed/{id}          id of the table without a name that it fills; pyspark_exuvia/parts.py
    m/written/{name}        when the write of that name was begun; done, or a load is under way
    m/streamed/{query}{table}     the stream's last batch there; pyspark_exuvia/sink.py
    m/fkchild/{link}        id of the table that has the foreign key; catalog/meta.py
    m/fkparent/{link}       id of the table it refers to
    m/fkorphan/{db}{name}   foreign keys that wait for a table of that name
    m/fkgone/{table}        foreign keys of a table that was dropped and may come back
    m/checkname/{db}{name}{table}   the table has a CHECK of that name; catalog/meta.py
    m/checknames            every table's are there
    m/ttl/{table}           rows of the table expire
    m/changelog/{table}     the change log of that table is complete from the commit that put this
    m/changelogfloor/{table}      stamp of the last commit whose records were removed
    m/changelogshape/{table}      since this was put the table has its name and columns
    m/moment/{us}           position of a moment, by wall time; events/change_log.py
    m/moved                 where all of this store is now: nobody joins it any more; node/move.py
    m/filling               the move that fills this store; given up where it is empty
    m/lockfloor             no lock mark of a commit up to this one need be there any more
    t{table}f{link}{values} mark of the last child of a referred row; sql/write/foreign_keys.py
    t{table}r{handle}       a row
    t{table}i{index}{values}[{handle}]   an index entry
    t{table}c{log}{stamp}{order}{n}   what a commit changed; kv/change_log.py
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
"""There once nobody lives, nor can join, who reads whole layouts of tables only."""
CHECK_NAMES = b"m/checknames"
"""There once names of CHECKs have keys, of every table: see catalog/meta.py."""
LAST_EPOCH = b"m/epoch"
READ_ONLY = b"m/readonly"
"""How strict the read-only modes are (0: none is on); commits of clients require at most what they
may write under. Source: catalog/sysvar/variables.py."""


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
    """The first key beyond every key that begins with prefix."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1])


def span_of(prefix: bytes) -> Span:
    """All keys that begin with prefix."""
    return Span(prefix, after(prefix))


def meta(kind: str, *parts: int | str) -> bytes:
    """A key below `m/{kind}/`.

    Numbers are 8 bytes, names lower-case UTF-8 (ended by 0 when something follows)."""
    return _meta(kind, parts)


@lru_cache(maxsize=4096)
def _meta(kind: str, parts: tuple[int | str, ...]) -> bytes:
    """Every loop asks for the same few again and again."""
    key = b"m/" + kind.encode() + b"/"
    for n, part in enumerate(parts):
        if isinstance(part, int):
            key += _U64.pack(part)
        else:
            key += part.lower().encode() + (b"\0" if n + 1 < len(parts) else b"")
    return key


def index_statistics(table: int, index: int) -> bytes:
    """Stands until an index's finishing event is told, if its fill made statistics."""
    return meta("indexstats", table, index)


def revision(table: int) -> bytes:
    """Where the revision of a table stands."""
    return b"m/rev/" + _U64.pack(table)


def is_revision(key: bytes) -> bool:
    """Whether the key is that of a table's or database's revision."""
    return key.startswith((b"m/rev/", b"m/dbrev/"))


def database_revision(database: int) -> bytes:
    """Where the revision of a database stands."""
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
    """Whether many commits require it as it stands, and few write it: a revision, an epoch."""
    return key.startswith(_FENCES)


LOCK_FLOOR = b"m/lockfloor"
UPDATE, SHARE = b"x", b"s"
_TABLE_END = 9
_DIGEST_BYTES = 16


def lock_header(key: bytes) -> bytes:
    """What is written with each lock mark of the table that a row or an index entry is of."""
    return key[:_TABLE_END] + b"l"


def is_lock_header(key: bytes) -> bool:
    """Inverse of `lock_header`."""
    return len(key) == _TABLE_END + 1 and key[:1] == b"t" and key[-1:] == b"l"


def lock_mark(mode: bytes, key: bytes) -> bytes:
    """Where a lock of a row or an index entry leaves its mark."""
    mark = key[:_TABLE_END] + b"l" + mode + key[_TABLE_END:]
    if len(mark) <= LONGEST_KEY:
        return mark
    kept = LONGEST_KEY - _DIGEST_BYTES
    return mark[:kept] + blake2b(mark[kept:], digest_size=_DIGEST_BYTES).digest()


HANDLE_AT = 10  # a row's handle begins here in its key
VALUES_AT = 14  # an index entry's values begin here in its key
