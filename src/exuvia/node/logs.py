"""Logs: a JSON object a line on standard error. Messages are constant, variables ride in fields."""

import json
import logging
import sys
from datetime import UTC, datetime

_OWN = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class _Lines(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in record.__dict__.items() if key not in _OWN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def to_stderr(process: str, level: int = logging.INFO) -> None:
    """Send every log line of this process there. `process` is front or back."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(process))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for loud in ("asyncio", "py4j", "uvicorn"):
        logging.getLogger(loud).setLevel(logging.WARNING)
