"""The log of a server process: lines of JSON on standard error, whoever writes them."""

import json
import logging
import time
import traceback
import warnings

from bertfeat.arguments import checked
from bertfeat.server.guard import LOG_FIELDS


@checked
def log_as_json(*, requests: bool = True) -> None:
    """Have everything that this process logs, warns of or fails at written to standard error, a line of JSON each.

    A request has a line with its id, method, path, status, bytes and milliseconds, unless ``requests`` is off; anything
    else one with level, logger and message, and a traceback where there is one.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("bertfeat", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers.clear()  # those of the command write plain lines
        logger.propagate = True
    logging.getLogger("bertfeat.server").setLevel(logging.INFO if requests else logging.WARNING)
    log = logging.getLogger("py.warnings")
    warnings.showwarning = lambda message, category, *_, **__: log.warning("%s: %s", category.__name__, message)


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON, of ASCII alone, so that no character ends a line."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        told = getattr(record, LOG_FIELDS, None)
        if told is None:
            told = {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage().strip()}
        if record.exc_info and record.exc_info[0] is not None:
            told = told | {"traceback": "".join(traceback.format_exception(*record.exc_info))}
        return json.dumps({"time": when, **told}, default=str)
