package interop.perftest;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import interop.harness.Node;
import interop.harness.Suite;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Runs RabbitMQ's PerfTest with its common option sets, each for {@code PERFTEST_SECONDS}, and
 * judges what it printed.
 */
public final class Main {
  private static final int DEFAULT_SECONDS = 2;
  private static final int RATE = 500;
  /** A rate shows only after the burst at the start. */
  private static final int RATE_SECONDS = 5;
  /** Bodies from this size on are published with confirms, so that no backlog of GBs builds up. */
  private static final int LARGE_BODY = 100_000;

  private final Suite suite = new Suite("perftest");
  private final int seconds;

  private Main(int seconds) {
    this.seconds = seconds;
  }

  public static void main(String[] wanted) throws Exception {
    String seconds = System.getenv().getOrDefault("PERFTEST_SECONDS", "" + DEFAULT_SECONDS);
    Main main = new Main(Integer.parseInt(seconds));
    main.register();
    System.exit(main.suite.run(wanted));
  }

  private void register() {
    add("default-flags");
    add("auto-ack", "--autoack");
    add("multi-ack", "--multi-ack-every", "10", "-q", "200");
    add("confirms", "-c", "100");
    add("persistent", "-f", "persistent", "-c", "100", "--multi-ack-every", "10", "-q", "200");
    for (int size : new int[] {0, 100, 1000, 10_000, 100_000, 1_000_000}) {
      String bytes = Integer.toString(size);
      if (size < LARGE_BODY) {
        add("size-" + bytes, "-s", bytes);
      } else {
        add("size-" + bytes, "-s", bytes, "-c", "50");
      }
    }
    add("50-producers-50-consumers", "-x", "50", "-y", "50");
    suite.add("topic-exchange", limit(), this::topicExchange);
    add("queue-pattern", "--queue-pattern", "perf-%d", "--queue-pattern-from", "1",
        "--queue-pattern-to", "10", "-x", "10", "-y", "10");
    suite.add("rate", limit(), (node, id) -> {
      Report report = runFor(rateSeconds(), node, "--rate", Integer.toString(RATE));
      report.near("sent", report.sentPerSecond(), RATE);
      report.near("received", report.receivedPerSecond(), RATE);
    });
    suite.add("consumer-rate", limit(), (node, id) -> {
      Report report = runFor(rateSeconds(), node, "--consumer-rate", Integer.toString(RATE), "-q", "10");
      report.near("received", report.receivedPerSecond(), RATE);
    });
    suite.add("predeclared-durable", limit(), this::predeclaredDurable);
    add("message-properties", "-mp",
        "deliveryMode=2,priority=5,timestamp=2007-12-03T10:15:30+01:00,custom=text");
    // Without consumer transactions: the tool may close its connection within one, and complains.
    add("transactions", "-m", "10", "-q", "100");
    add("polling", "--polling");
    add("nack-requeue", "--nack", "--requeue", "false", "-q", "100");
  }

  private void add(String id, String... options) {
    suite.add(id, limit(), (node, ignored) -> run(node, options));
  }

  private long limit() {
    return seconds + 60L;
  }

  private void topicExchange(Node node, String id) throws Exception {
    String exchange = "interop.perftest.topic." + UUID.randomUUID();
    run(node, "-t", "topic", "-e", exchange, "-k", "perf.topic.key");
    try (Connection connection = connect(node)) {
      connection.createChannel().exchangeDelete(exchange);
    }
  }

  private void predeclaredDurable(Node node, String id) throws Exception {
    String queue = "interop.perftest.durable." + UUID.randomUUID();
    try (Connection connection = connect(node)) {
      Channel channel = connection.createChannel();
      channel.queueDeclare(queue, true, false, false, Map.of());
      run(node, "--predeclared", "-u", queue, "-ad", "false", "-f", "persistent", "-q", "100");
      channel.queueDeclarePassive(queue);
      channel.queueDelete(queue);
    }
  }

  private int rateSeconds() {
    return Math.max(seconds, RATE_SECONDS);
  }

  private Report run(Node node, String... options) throws Exception {
    return runFor(seconds, node, options);
  }

  private Report runFor(int length, Node node, String... options) throws Exception {
    Report report = PerfTest.run(node, length, List.of(options));
    report.check();
    suite.note(report.toString());
    return report;
  }

  private static Connection connect(Node node) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(node.uri());
    return factory.newConnection("interop.perftest");
  }
}
