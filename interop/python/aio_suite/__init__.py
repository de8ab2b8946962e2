"""The scenario list with aio-pika."""

from aio_suite import connections, consuming, exchanges, publishing, queues, restart  # noqa: F401
from aio_suite.client import LIBRARY

__all__ = ["LIBRARY"]
