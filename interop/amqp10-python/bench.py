"""What scenarios of both clients work with: connections of RabbitMQ's client, and queues that go at the end."""

from harness import wait_until
from rabbitmq_amqp_python_client import (
    AddressHelper,
    ClassicQueueSpecification,
    Environment,
    QuorumQueueSpecification,
    RecoveryConfiguration,
    StreamSpecification,
)

N_MESSAGES = 200
TYPES = {
    "classic": ClassicQueueSpecification,
    "quorum": QuorumQueueSpecification,
    "stream": StreamSpecification,
}
RECOVERY = RecoveryConfiguration(active_recovery=False)


def address(queue):
    return AddressHelper.queue_address(queue)


def numbers(begin, end):
    return [str(number) for number in range(begin, end)]


class Bench:
    """A connection of RabbitMQ's client with its management node, for one scenario."""

    def __init__(self, context):
        self.context = context
        self.environment = Environment(uri(context), recovery_configuration=RECOVERY)
        context.on_end(self.environment.close)
        self.connection = self.connect()
        self.management = self.connection.management()

    def connect(self):
        """A connection, of which each thread and each running consumer has one of its own."""
        connection = self.environment.connection()
        connection.dial()
        return connection

    def queue(self, kind="classic", suffix="q", **settings):
        name = self.context.name(suffix)
        self.management.declare_queue(TYPES[kind](name, **settings))
        return name

    def wait_ready(self, queue, count):
        wait_until(lambda: self.management.queue_info(queue).message_count == count, f"{count} ready messages")


def uri(context, user="guest", password="guest"):
    return f"amqp://{user}:{password}@{context.node.host}:{context.node.port}/"


def clean(node, names):
    """Deletes the queues of a scenario, of which it has deleted some itself perhaps."""
    environment = Environment(f"amqp://guest:guest@{node.host}:{node.port}/")
    connection = environment.connection()
    connection.dial()
    management = connection.management()
    for name in names:
        management.delete_queue(name)
    environment.close()
