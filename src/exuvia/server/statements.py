"""Runs a connection's commands in its session. No sockets and no threads here.

    command bytes --task()--> Task(quick, about, work)
    work(outgoing) --> the packets of the answer, in chunks; an error ends it with an ERR packet

A `quick` task blocks on nothing and may run on the protocol thread. Several statements in one text
are run one after the other, each with its own answer; the first error ends them.

LOAD DATA LOCAL receives a file from the client (MySQL protocol, "LOCAL INFILE Request"):

    statement's thread                       protocol thread
    requests: 0xFB name        ->            sends it, and then passes packets on
    read: chunks               <-  queue  <- put: each packet; b"" is the end
    finish: discards the rest                then answers as usual

The socket is not read further while more than TRANSFER_BYTES wait.
"""

import re
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from queue import Empty, SimpleQueue
from typing import NamedTuple

from exuvia.base import memory
from exuvia.base.errors import WouldWait
from exuvia.base.interruption import taking_turns
from exuvia.base.long_text import decoded_pieces, drained, joined
from exuvia.base.long_work import search
from exuvia.base.mysql_errors import (
    ErrInvalidCharacterString,
    ErrMaxPreparedStmtCountReached,
    ErrNetReadInterrupted,
    ErrPSManyParam,
    ErrQueryInterrupted,
    ErrStmtHasNoOpenCursor,
    ErrTooManyFields,
    ErrUnknownStmtHandler,
)
from exuvia.base.types import Value
from exuvia.server import packets, results
from exuvia.server.packets import Login, Outgoing, Payload, explain
from exuvia.server.prepared import LongData, ServerCursor, Statement, id_of, wants_cursor
from exuvia.sql.parse.syntax_error import syntax_error
from exuvia.sql.parse.tokens import lexemes
from exuvia.sql.result import Result
from exuvia.sql.statement.context import Course, SessionApi
from exuvia.sql.statement.settings import SessionSettings

TRANSFER_BYTES = 4 << 20
STALLED_S = 60.0
CHECK_S = 0.1


class Transfer:
    """One file. `resume` resumes reading of the socket; `check` raises an error to end the
    statement."""

    def __init__(
        self, sequence: int, resume: Callable[[], None], check: Callable[[], None]
    ) -> None:
        self.sequence = sequence
        self._resume = resume
        self._check = check
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._is_over = False

    def put(self, sequence: int, payload: bytes) -> bool:
        """Add a packet. Returns True if the socket should not be read further for now."""
        self.sequence = sequence
        with self._lock:
            self._waiting += len(payload)
            too_much = self._waiting > TRANSFER_BYTES
        self._queue.put(payload)
        return too_much

    def lose(self) -> None:
        """Record that the client has disconnected."""
        self._queue.put(None)

    def read(self) -> Iterator[bytes]:
        """The file's bytes. Raises 1159 if the client stops sending, 1317 if it disconnects or the
        statement is killed."""
        while not self._is_over:
            chunk = self._take(self._check)
            if chunk:
                yield chunk

    def _take(self, check: Callable[[], None]) -> bytes:
        check()
        for _ in range(int(STALLED_S / CHECK_S)):
            with suppress(Empty):
                payload = self._queue.get(timeout=CHECK_S)
                break
            check()
        else:
            self._is_over = True
            raise ErrNetReadInterrupted()
        if payload is None:
            self._is_over = True
            raise ErrQueryInterrupted()
        self._is_over = not payload
        with self._lock:
            before, self._waiting = self._waiting, self._waiting - len(payload)
        if before > TRANSFER_BYTES >= self._waiting:
            self._resume()
        return payload

    def finish(self) -> int:
        """Discard the rest of the file. Returns the sequence of the answer's first packet."""
        try:
            while not self._is_over:
                self._take(_anything)
        finally:
            self._is_over = True
        return self.sequence + 1 & 255


def _anything() -> None:
    """Checks nothing: after its statement has ended, the client still sends the rest of its
    file."""


# -- statements ------------------------------------------------------------------------------------

Chunks = Iterator[bytearray]
Work = Callable[[Outgoing], Chunks]
PREPARED_STATEMENTS = 16_382
LONG_TEXT = 1 << 14
MOST_COUNTED = (1 << 16) - 1  # limit of parameters and columns in the answer to COM_STMT_PREPARE


class LongText(NamedTuple):
    """A large statement's text. `is_text`: all bytes are valid in the client's character set."""

    text: str
    is_text: bool


_TEXTS = (0x03, 0x16)  # commands whose payload is a text


class CommandTask(NamedTuple):
    """A command, ready to run.

    `kind`: its name in metrics. `about`: text for SHOW PROCESSLIST. `parameters`: those of a
    prepared statement."""

    course: Course
    kind: str
    about: str
    work: Work
    parameters: Sequence[Value] = ()


_BLANK = re.compile(r"(?:\s++|--(?=\s)[^\n]*+|#[^\n]*+|/\*(?!!).*?\*/)*+", re.DOTALL)
_SEMICOLONS = re.compile(r";(?:[;\s]{0,65535};)?")
_NO_TEXT = re.compile("[\udc80-\udcff]")


def quoted(name: str) -> str:
    """The name as a quoted identifier of SQL."""
    return "`" + name.replace("`", "``") + "`"


def split(text: str, plain: str = "") -> list[str]:
    """The statements of a text, at the semicolons outside of strings, names and comments.

    `plain`: the quotes between which a backslash is an ordinary character."""
    return [piece for piece, _ in _pieces(text, plain)] or [text]


def _is_one(text: str) -> bool:
    """Whether a text is certainly one statement."""
    return ";" not in text.rstrip("; \n\t\r")


def _pieces(text: str, plain: str) -> Iterator[tuple[str, int]]:
    """Each statement of a text, and the position of the next one.

    One at a time: a text of 64 MB may have 20 million statements."""
    if _is_one(text):
        yield text, len(text)
        return
    start = 0
    for place, end in chain(_semicolons(text, plain), ((len(text), len(text)),)):
        if place > start and not _BLANK.fullmatch(piece := text[start:place]):
            yield piece, end
        start = end


def _semicolons(text: str, plain: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each run of semicolons with only white space between, outside of strings,
    names and comments."""
    at = 0
    for begin, end in chain(lexemes(text, plain), ((len(text), len(text)),)):
        while (place := text.find(";", at, begin)) >= 0:
            run = _SEMICOLONS.match(text, place, begin)
            assert run is not None
            at = run.end()
            yield place, at
        at = end


def in_turn(text: str, settings: SessionSettings) -> Iterator[tuple[str, bool]]:
    """Each statement of a text, and whether it is the last.

    After a statement that changes sql_mode the rest is split again."""
    plain = settings.plain_quotes
    pieces = _pieces(text, plain)
    piece: tuple[str, int] | None = next(pieces, (text, len(text)))
    while piece is not None:
        following = next(pieces, None)
        yield piece[0], following is None
        if following is not None and settings.plain_quotes != plain:
            plain, text = settings.plain_quotes, text[piece[1] :]
            pieces = _pieces(text, plain)
            following = next(pieces, (text, len(text)))
        piece = following


class Statements:
    """The commands of one connection that run statements."""

    def __init__(self, session: SessionApi, login: Login, most_bytes: int) -> None:
        self.session = session
        self._most_bytes = most_bytes
        self.several = bool(login.capabilities & packets.SEVERAL_STATEMENTS)
        ends_with_ok = bool(login.capabilities & packets.ENDS_WITH_OK)
        self._codec = login.codec
        self._agreed = results.Agreed(ends_with_ok, login.codec)
        self._prepared: dict[int, Statement] = {}
        self._long_data = LongData()
        self._last_id = 0
        self.ask_for_file: Callable[[Outgoing, bytes], Transfer] | None = None
        self._transfers: list[Transfer] = []

    @property
    def status(self) -> int:
        """The present status flags."""
        session = self.session
        flags = packets.AUTOCOMMIT if session.settings.autocommit else 0
        return flags | packets.IN_TRANSACTION if session.current is not None else flags

    def done(self, outgoing: Outgoing) -> Chunks:
        outgoing.add(packets.ok(0, 0, self.status, 0))
        yield outgoing.take()

    def ended(self, outgoing: Outgoing) -> Chunks:
        """An EOF packet."""
        outgoing.add(packets.eof(self.status, 0))
        yield outgoing.take()

    def set_option(self, payload: bytes) -> CommandTask:
        """COM_SET_OPTION: whether a text may hold several statements."""
        self.several = payload[:2] == b"\0\0"
        return CommandTask(Course.AT_ONCE, "option", "", self.ended)

    # -- text --------------------------------------------------------------------------------------

    def body_of(self, payload: Payload) -> bytes | LongText:
        """Decode a large payload for its command. Any thread; it takes long."""
        parts, payload = payload.parts, Payload(payload.command, [])
        if payload.command not in _TEXTS:
            return joined(b"", parts)
        texts: list[str] = []
        is_text = True
        with taking_turns():
            for piece in decoded_pieces(drained(parts), self._codec, "surrogateescape"):
                is_text = is_text and (piece.isascii() or _NO_TEXT.search(piece) is None)
                texts.append(piece)
            return LongText(joined("", texts), is_text)

    def query(self, payload: bytes | LongText) -> CommandTask:
        """COM_QUERY. Some clients send a NUL at the end of the text."""
        if isinstance(payload, LongText) or len(payload) > LONG_TEXT:
            text, is_text = self._read(payload)
            text = text.rstrip("\0")
            return CommandTask(
                Course.POOL, "query", text, lambda out: self._long(out, text, is_text)
            )
        text = self._decode(payload.rstrip(b"\0"))
        if not _is_one(text) and self._has_several(text):
            return CommandTask(Course.POOL, "query", text, lambda out: self._many(out, text))
        course = self.session.course(text)
        return CommandTask(course, "query", text, lambda out: self._one(out, text))

    def _has_several(self, text: str) -> bool:
        """Whether the text has several statements. Raises 1064 if the client may send only one."""
        pieces = _pieces(text, self.session.settings.plain_quotes)
        next(pieces, None)
        second = next(pieces, None)
        if second is not None and not self.several:
            raise syntax_error(text, text.index(second[0].strip()))
        return second is not None

    def _long(self, outgoing: Outgoing, text: str, is_text: bool) -> Chunks:
        """Check and split a text that is too long for the protocol thread, and run it."""
        if not is_text:
            self._require_text(text)
        several = self._has_several(text)
        yield from self._many(outgoing, text) if several else self._one(outgoing, text)

    def _one(self, outgoing: Outgoing, text: str) -> Chunks:
        answered = self._executed(text, outgoing)
        chunks = self._answers(outgoing, answered, 0)
        if text[:8].lstrip()[:3].upper() == "SET":
            self._recode()
        return chunks

    def _many(self, outgoing: Outgoing, text: str) -> Chunks:
        for piece, is_last in in_turn(text, self.session.settings):
            more = 0 if is_last else packets.MORE_RESULTS
            yield from self._answers(outgoing, self._executed(piece, outgoing), more)
        self._recode()

    def _executed(self, text: str, outgoing: Outgoing) -> Result | list[Result]:
        """Run a text, which may request a file of the client."""
        ask, transfers = self.ask_for_file, self._transfers
        if ask is None:
            return self.session.execute(text)

        def local_file(name: str) -> Iterator[bytes]:
            transfers.append(ask(outgoing, name.encode(self._codec)))
            return transfers[-1].read()

        self.session.local_file = local_file
        try:
            return self.session.execute(text)
        finally:
            self.session.local_file = None
            while transfers:
                outgoing.sequence = transfers.pop().finish()

    def _answers(self, outgoing: Outgoing, answered: Result | list[Result], more: int) -> Chunks:
        if isinstance(answered, Result):
            return results.answer(answered, outgoing, self._agreed, self.status | more)
        return self._several(outgoing, answered, more)

    def _several(self, outgoing: Outgoing, answered: list[Result], more: int) -> Chunks:
        for number, result in enumerate(answered, 1):
            flag = packets.MORE_RESULTS if number < len(answered) else more
            yield from results.answer(result, outgoing, self._agreed, self.status | flag)

    def use(self, payload: bytes) -> CommandTask:
        """COM_INIT_DB."""
        text = f"USE {quoted(self._decode(payload))}"
        is_near = self.session.services.store.near  # otherwise its read would block all clients
        course = Course.AT_ONCE if is_near else Course.POOL
        return CommandTask(course, "use", text, lambda out: self._one(out, text))

    def fields(self, payload: bytes) -> CommandTask:
        """COM_FIELD_LIST: the columns of a table, for the completion of the mysql client."""
        text = f"SELECT * FROM {quoted(self._decode(payload.split(bytes(1))[0]))} LIMIT 0"
        return CommandTask(Course.POOL, "fields", text, lambda out: self._fields(out, text))

    def _fields(self, outgoing: Outgoing, text: str) -> Chunks:
        result = self.session.execute(text)
        assert isinstance(result, Result)
        for column in result.columns:
            outgoing.add(packets.column(column) + b"\xfb")
        results.end(outgoing, self._agreed, self.status)
        yield outgoing.take()

    def _decode(self, payload: bytes) -> str:
        """The text. Invalid bytes become lone surrogates inside string literals; elsewhere they
        raise 1300.

        Drivers and mysqldump write BLOBs as string literals."""
        try:
            return payload.decode(self._codec)
        except UnicodeDecodeError:
            text = payload.decode(self._codec, "surrogateescape")
        self._require_text(text)
        return text

    def _read(self, payload: bytes | LongText) -> LongText:
        """The text, and whether all of its bytes are valid."""
        if isinstance(payload, LongText):
            return payload
        try:
            return LongText(payload.decode(self._codec), True)
        except UnicodeDecodeError:
            return LongText(payload.decode(self._codec, "surrogateescape"), False)

    def _require_text(self, text: str) -> None:
        """Raises 1300 if invalid bytes are outside of string literals."""
        wrong = search(_NO_TEXT, text)
        if wrong is None:
            return
        rest = (len(text), len(text))
        for begin, end in chain(lexemes(text, self.session.settings.plain_quotes), (rest,)):
            at = wrong.start()
            if at >= end:
                continue
            if at < begin or text[begin] not in "'\"":
                invalid = text[at : at + 6].encode(self._codec, "surrogateescape")[:6]
                raise ErrInvalidCharacterString(self._codec, invalid.hex())
            wrong = search(_NO_TEXT, text, end)
            if wrong is None:
                return

    def _recode(self) -> None:
        """Use the character sets that SET NAMES may have changed."""
        self._codec = packets.codec_of(self.session.variable("character_set_client"))
        reads = packets.codec_of(self.session.variable("character_set_results"))
        self._agreed = self._agreed._replace(codec=reads)

    # -- prepared ----------------------------------------------------------------------------------

    def prepare(self, payload: bytes | LongText) -> CommandTask:
        """COM_STMT_PREPARE."""
        text, is_text = self._read(payload)
        return CommandTask(
            Course.POOL, "prepare", text, lambda out: self._prepare(out, text, is_text)
        )

    def _prepare(self, outgoing: Outgoing, text: str, is_text: bool) -> Chunks:
        if not is_text:
            self._require_text(text)
        if len(self._prepared) >= PREPARED_STATEMENTS:
            raise ErrMaxPreparedStmtCountReached(PREPARED_STATEMENTS)
        prepared = self.session.prepare(text)
        if prepared.parameters > MOST_COUNTED:
            raise ErrPSManyParam()
        if len(prepared.columns) > MOST_COUNTED:
            raise ErrTooManyFields()
        self._last_id += 1
        statement = Statement(prepared, prepared.parameters, self._long_data)
        self._prepared[self._last_id] = statement
        columns = prepared.columns
        counts = (len(columns).to_bytes(2, "little"), prepared.parameters.to_bytes(2, "little"))
        outgoing.add(b"\0" + self._last_id.to_bytes(4, "little") + b"".join(counts) + bytes(3))
        for group in ([results.PARAMETER] * prepared.parameters, columns):
            for column in group:
                outgoing.add(packets.column(column))
            if group and not self._agreed.ends_with_ok:
                outgoing.add(packets.eof(self.status, 0))
        yield outgoing.take()

    def execute(self, payload: bytes) -> CommandTask:
        """COM_STMT_EXECUTE."""
        statement = self._find(payload, "mysqld_stmt_execute")
        values = statement.read(payload, self._codec)
        statement.cursor, asks = None, wants_cursor(payload)
        is_long = len(payload) > LONG_TEXT
        course = Course.POOL if is_long else self.session.course(statement.prepared)
        text = statement.prepared.text
        return CommandTask(
            course, "execute", text, lambda o: self._execute(o, statement, values, asks), values
        )

    def _execute(
        self, outgoing: Outgoing, statement: Statement, values: list[Value], asks: bool
    ) -> Chunks:
        result = self.session.execute_prepared(statement.prepared, values)
        if asks and result.columns:
            statement.cursor = ServerCursor(result)
            return statement.cursor.open(outgoing, self._agreed, self.status)
        return results.answer(result, outgoing, self._agreed, self.status, binary=True)

    def fetch(self, payload: bytes) -> CommandTask:
        """COM_STMT_FETCH."""
        statement, agreed = self._find(payload, "mysqld_stmt_fetch"), self._agreed

        def work(outgoing: Outgoing) -> Chunks:
            if statement.cursor is None:
                raise ErrStmtHasNoOpenCursor(id_of(payload))
            count = int.from_bytes(payload[4:8], "little")
            yield from statement.cursor.fetch(count, outgoing, agreed, self.status)

        return CommandTask(Course.POOL, "fetch", statement.prepared.text, work)

    def long_data(self, payload: bytes) -> None:
        """COM_STMT_SEND_LONG_DATA: no answer."""
        if len(payload) >= 6 and id_of(payload) in self._prepared:
            position = int.from_bytes(payload[4:6], "little")
            self._prepared[id_of(payload)].append(position, payload[6:], self._most_bytes)

    def reset(self, payload: bytes) -> CommandTask:
        """COM_STMT_RESET."""
        self._find(payload, "mysqld_stmt_reset").clear()
        return CommandTask(Course.AT_ONCE, "reset", "", self.done)

    def forget(self, payload: bytes) -> None:
        """COM_STMT_CLOSE: no answer."""
        statement = self._prepared.pop(id_of(payload), None)
        if statement is not None:
            statement.forget_long_data()

    def _find(self, payload: bytes, asked_by: str) -> Statement:
        statement = self._prepared.get(id_of(payload))
        if statement is None:
            raise ErrUnknownStmtHandler(id_of(payload), asked_by)
        return statement


def guarded(
    work: Work, outgoing: Outgoing, failed: Callable[[int], None]
) -> Generator[bytearray, None, None]:
    """The chunks of an answer. An error ends them with its packet, and `failed` is called with its
    code.

    WouldWait is raised to the caller. It occurs only before the first chunk."""
    try:
        yield from work(outgoing)
    except WouldWait:
        raise
    except Exception as error:  # the client gets an answer in any case (server/packets.py)
        yield refusal(error, outgoing, failed)


def refusal(error: Exception, outgoing: Outgoing, failed: Callable[[int], None]) -> bytearray:
    """The packet that ends an answer with an error. `failed` is called with its code."""
    refused = explain(error)
    memory.release_frames(error)
    failed(refused.code)
    outgoing.add(packets.error(refused.code, refused.state, refused.message))
    return outgoing.take()
