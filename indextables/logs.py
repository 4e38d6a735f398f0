"""Logging: plain lines, or with `INDEXTABLES_LOG_FORMAT=json` one JSON object per line."""

from __future__ import annotations

import json
import logging
import os
from typing import IO

from indextables.clock import iso_ms
from indextables.errors import IndexTablesError

FORMAT = "INDEXTABLES_LOG_FORMAT"
logger = logging.getLogger("indextables")
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class JsonLines(logging.Formatter):
    """Formats a record as JSON: `time`, `level`, `logger`, `message`, and the fields given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": iso_ms(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD and name not in line}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_failure(error: Exception, text: str) -> None:
    """Logs the failure of a follow-up step; the operation itself has succeeded. Unexpected errors are logged with their trace."""
    logger.warning("%s: %s", text, error, exc_info=not isinstance(error, IndexTablesError))


def _is_not_interrupt(record: logging.LogRecord) -> bool:
    """False for the trace of Ctrl-C that py4j logs: our programs report an interrupt themselves, in one line."""
    return not record.exc_info or not isinstance(record.exc_info[1], KeyboardInterrupt)


def configure(stream: IO[str], *, verbose: bool) -> None:
    """Configures logging for our own programs; as a library, the package leaves that to the caller."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if os.environ.get(FORMAT) == "json" else logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(_is_not_interrupt)
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
