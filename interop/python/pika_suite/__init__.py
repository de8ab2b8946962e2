"""The scenario list with pika."""

from pika_suite import connections, consuming, exchange_types, exchanges, publishing, queues, restart  # noqa: F401
from pika_suite.client import LIBRARY

__all__ = ["LIBRARY"]
