"""The scenario list with pika."""

# ruff: noqa: F401
from pika_suite import confirm_on, connections, consuming, exchange_types, exchanges, publishing, queues, quorum_queues
from pika_suite import restart
from pika_suite import rule_consumers, rule_dead_letters, rule_expiry, rule_lengths, rule_policies, rule_quorum
from pika_suite import sending_again
from pika_suite.client import LIBRARY

__all__ = ["LIBRARY"]
