"""`exuvia serve`: a node in this process (node/front.py). One line on stdout when it is ready."""

import logging
import sys

from exuvia.base.errors import Refused, Unavailable
from exuvia.node import logs
from exuvia.node.assemble import Options
from exuvia.node.front import serve

_log = logging.getLogger(__name__)


def run(options: Options) -> int:
    """The exit code; 1 with one clear line when the node cannot start."""
    logs.to_stderr("front")
    try:
        return serve(options)
    except (Unavailable, Refused, OSError) as error:
        _log.critical("the node cannot start", extra={"reason": str(error)})
        sys.stderr.write(f"exuvia: {error}\n")
        return 1
