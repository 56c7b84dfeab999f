"""`postgresql://user@host:port,host:port/database?schema=exuvia&connections=24&sslmode=verify-full`

The store's own parameters are removed; the others are libpq's (its parameters, services, password
file). A password in the URL is refused, because it would be visible in process lists, logs and rows
of jobs. Use libpq's password file on every host.
"""

import re
from dataclasses import dataclass, fields
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from exuvia.base.errors import Unavailable

_SECRET = ("password", "sslpassword", "oauth_client_secret")
_PASSWORD = re.compile(r"(?<=://)([^/:@?]*):(?!\d*[,/?]).*@")
"""Between user and host, including characters that should be encoded; not the port of a host."""
_NAMED = re.compile(rf"\b({'|'.join(_SECRET)})=[^&\s]*")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """Settings of a store. Times in seconds.

    `connections`: limit of one process, for all its pools (PostgresStore). `wait_s`: for a
    connection. `answer_s`: for the server's answer to a read. `commit_s`: for that to a commit,
    which may wait for a standby. `silent_s`: time after which a silent host counts as gone.
    `fallback_s`: interval of checks of a channel without notifications."""

    schema: str = "exuvia"
    connections: int = 24
    wait_s: float = 5.0
    connect_s: float = 5.0
    answer_s: float = 300.0
    commit_s: float = 60.0
    silent_s: float = 10.0
    fallback_s: float = 0.5


def without_secrets(url: str) -> str:
    """The URL without secrets, for messages; also works for text that is not a URL."""
    url = _NAMED.sub(r"\1=***", _PASSWORD.sub(r"\1@", url))
    parts = urlsplit(url)
    query = [
        (name, "***" if name in _SECRET else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    if any(value == "***" for _, value in query):
        parts = parts._replace(query=urlencode(query, quote_via=quote, safe="*/"))
    return _joined(parts) if "://" in url else url


def _joined(parts: SplitResult) -> str:
    """As urlunsplit, but keeps the slashes of an empty host, which libpq requires."""
    return f"{parts.scheme}://{parts.netloc}{parts.path}{'?' if parts.query else ''}{parts.query}"


def parse(url: str) -> tuple[str, PostgresSettings]:
    """The URL for libpq, and the settings. Raises Unavailable if it is wrong."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    if _PASSWORD.search(url) or any(name in _SECRET for name, _ in query):
        raise Unavailable(
            f"the URL {without_secrets(url)} has a password: put it into libpq's password file "
            "(.pgpass) or service file on each host"
        )
    types = {field.name: field.type for field in fields(PostgresSettings)}
    chosen: dict[str, str | int | float] = {}
    rest = []
    for name, text in query:
        if name not in types:
            rest.append((name, text))
            continue
        try:
            chosen[name] = (
                text if types[name] is str else int(text) if types[name] is int else float(text)
            )
        except ValueError as error:
            raise Unavailable(f"the store's setting {name} is no number: {text!r}") from error
    settings = PostgresSettings(**chosen)  # type: ignore[arg-type]
    if not _NAME.fullmatch(settings.schema):
        raise Unavailable(f"no name of a schema: {settings.schema!r}")
    if settings.connections < LEAST_CONNECTIONS:
        raise Unavailable(f"a process needs {LEAST_CONNECTIONS} connections at least")
    return _joined(parts._replace(query=urlencode(rest, quote_via=quote, safe="/,"))), settings


LEAST_CONNECTIONS = 8
