"""`exuvia serve`: a front (node/front.py), kept alive. One line on stdout when it is ready."""

import logging
import sys
from functools import partial

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Refused, Unavailable
from exuvia.kv.open import pinned
from exuvia.node import logs
from exuvia.node.assemble import Options
from exuvia.node.supervise import Keeper, Ready

_log = logging.getLogger(__name__)


def run(options: Options) -> int:
    """The exit code; 1 with one clear line when the node cannot start."""
    logs.to_stderr("keeper")
    return Keeper(partial(serve_front, options), SystemClock()).run()


def serve_front(options: Options, before: str, ready: Ready) -> int:
    """A front's life. `before`: ports and store of the front before it, which clients know."""
    logs.to_stderr("front")
    from exuvia.node.front import serve  # not in the keeper: a second, threads, and 100 MB

    if before:
        port, status_port, store = before.split(" ", 2)
        options = options._replace(port=int(port), status_port=int(status_port), store=store)

    def announce(port: int, status_port: int) -> None:
        ready(f"{port} {status_port} {pinned(options.store)}")
        if not before:  # once: nobody may read a second line
            _say_ready(options, port, status_port)

    try:
        return serve(options, announce)
    except (Unavailable, Refused, OSError) as error:
        _log.critical("the node cannot start", extra={"reason": str(error)})
        sys.stderr.write(f"exuvia: {error}\n")
        return 1


def _say_ready(options: Options, port: int, status_port: int) -> None:
    """The one line on standard output: clients may come."""
    host = options.host
    sys.stdout.write(
        f"exuvia ready: mysql {host}:{port}, status http://{host}:{status_port}, "
        f"store {options.store}\n"
    )
    sys.stdout.flush()
