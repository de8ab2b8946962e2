package interop.amqp10;

import static interop.amqp10.Bench.body;
import static interop.harness.Expect.equal;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Management.ExchangeType;
import com.rabbitmq.client.amqp.Publisher;
import interop.harness.Expect;
import interop.harness.Suite;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;

/** The workflows of RabbitMQ's tutorials two to five; the others are scenarios of their own. */
final class Tutorials {
  private Tutorials() {}

  static void register(Suite suite) {
    suite.add("tutorial-work-queues", body(Tutorials::workQueues));
    suite.add("tutorial-publish-subscribe", body(Tutorials::publishSubscribe));
    suite.add("tutorial-routing", body(Tutorials::routing));
    suite.add("tutorial-topics", body(Tutorials::topics));
  }

  /** A worker that is slow gets no other task meanwhile. */
  private static void workQueues(Bench bench) throws Exception {
    String queue = bench.quorum();
    Inbox slow = new Inbox();
    worker(bench.connect(), queue, slow);
    bench.publishNumbers(queue, 1);
    Inbox.Delivery first = slow.next();
    Set<String> done = new ConcurrentSkipListSet<>();
    bench.connect().consumerBuilder().queue(queue).initialCredits(1).messageHandler((context, message) -> {
      done.add(new String(message.body(), UTF_8));
      context.accept();
    }).build();
    bench.publishNumbers(queue, 10);
    Expect.eventually(new TreeSet<>(Bench.numbers(0, 10)), "the other worker's tasks", () -> new TreeSet<>(done));
    first.context().accept();
    bench.waitMessages(queue, 0);
  }

  private static void worker(Connection connection, String queue, Inbox inbox) {
    connection.consumerBuilder().queue(queue).initialCredits(1).messageHandler(inbox).build();
  }

  private static void publishSubscribe(Bench bench) throws Exception {
    String logs = exchange(bench, ExchangeType.FANOUT);
    List<Inbox> subscribers = List.of(subscribe(bench, logs, ""), subscribe(bench, logs, ""));
    try (Publisher publisher = bench.connection.publisherBuilder().exchange(logs).build()) {
      Bench.publishNumbers(publisher, 0, 10);
    }
    for (Inbox subscriber : subscribers) {
      subscriber.accept(Bench.numbers(0, 10));
    }
    bench.management().exchangeDelete(logs);
  }

  private static void routing(Bench bench) throws Exception {
    String logs = exchange(bench, ExchangeType.DIRECT);
    Inbox all = subscribe(bench, logs, "info", "warning", "error");
    Inbox errors = subscribe(bench, logs, "error");
    publish(bench, logs, "info", "error", "warning", "error");
    all.accept(List.of("info", "error", "warning", "error"));
    errors.accept(List.of("error", "error"));
    bench.management().exchangeDelete(logs);
  }

  private static void topics(Bench bench) throws Exception {
    String logs = exchange(bench, ExchangeType.TOPIC);
    Inbox all = subscribe(bench, logs, "#");
    Inbox kernel = subscribe(bench, logs, "kern.*");
    Inbox critical = subscribe(bench, logs, "*.critical", "kern.critical");
    publish(bench, logs, "kern.critical", "auth.info", "kern.info", "cron.critical");
    all.accept(List.of("kern.critical", "auth.info", "kern.info", "cron.critical"));
    kernel.accept(List.of("kern.critical", "kern.info"));
    critical.accept(List.of("kern.critical", "cron.critical"));
    equal(0, critical.size(), "copies for several bindings");
    bench.management().exchangeDelete(logs);
  }

  private static String exchange(Bench bench, ExchangeType type) {
    String name = bench.name("logs");
    bench.management().exchange(name).type(type).declare();
    return name;
  }

  /** A consumer of an exclusive queue that is bound by these keys. */
  private static Inbox subscribe(Bench bench, String exchange, String... keys) {
    Connection connection = bench.connect();
    Management management = connection.management();
    String queue = management.queue().exclusive(true).autoDelete(true).declare().name();
    for (String key : keys) {
      management.binding().sourceExchange(exchange).destinationQueue(queue).key(key).bind();
    }
    Inbox inbox = new Inbox();
    connection.consumerBuilder().queue(queue).messageHandler(inbox).build();
    return inbox;
  }

  /** Publishes each key as the body of a message with that key. */
  private static void publish(Bench bench, String exchange, String... keys) throws Exception {
    for (String key : keys) {
      try (Publisher publisher = bench.connection.publisherBuilder().exchange(exchange).key(key).build()) {
        Bench.accepted(publisher, List.of(publisher.message(key.getBytes(UTF_8))));
      }
    }
  }
}
