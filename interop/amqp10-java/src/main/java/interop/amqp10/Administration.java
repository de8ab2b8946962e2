package interop.amqp10;

import static interop.amqp10.Bench.body;
import static interop.harness.Expect.equal;

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.AmqpException.AmqpEntityDoesNotExistException;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Management.ExchangeType;
import com.rabbitmq.client.amqp.Management.QueueInfo;
import com.rabbitmq.client.amqp.Management.QueueType;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Publisher.Status;
import interop.harness.Expect;
import interop.harness.Suite;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Queues, exchanges and bindings by the management node. */
final class Administration {
  private Administration() {}

  static void register(Suite suite) {
    suite.add("management-queues", body(Administration::queues));
    suite.add("management-exchanges", body(Administration::exchanges));
    suite.add("management-bindings", body(Administration::bindings));
    suite.add("management-refusals", body(Administration::refusals));
    suite.add("management-exclusive-queues", body(Administration::exclusive));
  }

  private static void queues(Bench bench) throws Exception {
    Management management = bench.management();
    String queue = bench.declaring("q /%é").type(QueueType.QUORUM).maxLength(1_000)
        .messageTtl(Duration.ofMinutes(1)).quorum().deliveryLimit(7).queue().declare().name();
    bench.publishNumbers(queue, 20);
    QueueInfo info = management.queueInfo(queue);
    equal(List.of(queue, true, false, false, QueueType.QUORUM, 20L, 0),
        List.of(info.name(), info.durable(), info.autoDelete(), info.exclusive(), info.type(), info.messageCount(),
            info.consumerCount()), "queue");
    Map<String, Object> expected = Map.of("x-queue-type", "quorum", "x-max-length", 1_000,
        "x-message-ttl", 60_000, "x-delivery-limit", 7);
    expected.forEach((key, value) ->
        equal(value.toString(), String.valueOf(info.arguments().get(key)), key));
    Expect.that(info.leader() != null && info.members().contains(info.leader()), "leader: " + info.leader());
    equal(20L, management.queuePurge(queue).messageCount(), "purged");
    equal(0L, management.queueInfo(queue).messageCount(), "messages afterwards");
    management.queueDelete(queue);
    fails(AmqpEntityDoesNotExistException.class, () -> management.queueInfo(queue));
    String named = management.queue().exclusive(true).declare().name();
    Expect.that(!named.isEmpty(), "a name for a queue that has none");
    management.queueDelete(named);
  }

  private static void exchanges(Bench bench) throws Exception {
    Management management = bench.management();
    for (ExchangeType type : ExchangeType.values()) {
      String exchange = bench.name("x " + type);
      management.exchange(exchange).type(type).declare();
      try (Publisher publisher = bench.connection.publisherBuilder().exchange(exchange).build()) {
        equal(Status.RELEASED, Bench.publish(publisher, List.of(publisher.message())).get(0).status(), "outcome");
      }
      management.exchangeDelete(exchange);
      fails(AmqpEntityDoesNotExistException.class,
          () -> bench.connection.publisherBuilder().exchange(exchange).build());
    }
  }

  private static void bindings(Bench bench) throws Exception {
    Management management = bench.management();
    String queue = bench.queue();
    String exchange = bench.name("x");
    management.exchange(exchange).type(ExchangeType.HEADERS).autoDelete(true).declare();
    Map<String, Object> ears = Map.of("ears", 2, "x-match", "all");
    management.binding().sourceExchange(exchange).destinationQueue(queue).arguments(ears).bind();
    management.binding().sourceExchange("amq.fanout").destinationExchange(exchange).key("k").bind();
    try (Publisher publisher = bench.connection.publisherBuilder().exchange("amq.fanout").build()) {
      Bench.accepted(publisher, List.of(publisher.message().property("ears", 2)));
      equal(Status.RELEASED, Bench.publish(publisher, List.of(publisher.message().property("ears", 3)))
          .get(0).status(), "outcome without a match");
      management.unbind().sourceExchange(exchange).destinationQueue(queue).arguments(ears).unbind();
      // Its last binding takes the exchange along.
      equal(Status.RELEASED, Bench.publish(publisher, List.of(publisher.message().property("ears", 2)))
          .get(0).status(), "outcome once it is unbound");
    }
    bench.waitMessages(queue, 1);
  }

  private static void refusals(Bench bench) throws Exception {
    Management management = bench.management();
    String queue = bench.declaring("q").type(QueueType.CLASSIC).maxLength(10).declare().name();
    fails(AmqpException.class, () -> management.queue(queue).type(QueueType.CLASSIC).maxLength(11).declare());
    fails(AmqpException.class, () -> management.exchange("amq.direct").type(ExchangeType.FANOUT).declare());
    fails(AmqpException.class, () -> management.exchange(bench.name("x")).type("none").declare());
    fails(AmqpException.class, () -> management.binding().sourceExchange(bench.name("x"))
        .destinationQueue(queue).key("k").bind());
    equal(0L, management.queueInfo(queue).messageCount(), "the node answers further on");
  }

  private static void exclusive(Bench bench) throws Exception {
    String queue;
    try (Connection other = bench.connect()) {
      queue = other.management().queue().exclusive(true).declare().name();
      fails(AmqpException.class, () -> bench.connection.consumerBuilder().queue(queue)
          .messageHandler(new Inbox()).build());
    }
    Expect.eventually(false, "the queue is there", () -> {
      try {
        bench.management().queueInfo(queue);
        return true;
      } catch (AmqpEntityDoesNotExistException gone) {
        return false;
      }
    });
  }

  /** Runs what must fail, with an exception of this class. */
  static AmqpException fails(Class<? extends AmqpException> expected, Runnable steps) {
    try {
      steps.run();
    } catch (AmqpException error) {
      Expect.that(expected.isInstance(error), "expected " + expected.getSimpleName() + ", got " + error);
      return error;
    }
    throw new AssertionError("no " + expected.getSimpleName());
  }
}
