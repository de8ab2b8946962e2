package interop.scenarios;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import interop.harness.Node;
import interop.harness.Suite;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HexFormat;
import java.util.Map;

/** What one scenario works with: its names, its connections, and the cleaning up after it. */
final class Lab implements AutoCloseable {
  /** The steps of a scenario. */
  interface Steps {
    void run(Lab lab) throws Exception;
  }

  private interface Cleanup {
    void run(Channel channel) throws Exception;
  }

  private static final SecureRandom RANDOM = new SecureRandom();

  private final Node node;
  private final String prefix;
  private final Deque<Connection> connections = new ArrayDeque<>();
  private final Deque<Cleanup> cleanups = new ArrayDeque<>();
  private final Deque<Check.Action> ends = new ArrayDeque<>();

  private Lab(Node node, String id) {
    this.node = node;
    byte[] nonce = new byte[4];
    RANDOM.nextBytes(nonce);
    this.prefix = "interop.java." + id + "." + HexFormat.of().formatHex(nonce);
  }

  static Suite.Body body(Steps steps) {
    return (node, id) -> {
      try (Lab lab = new Lab(node, id)) {
        steps.run(lab);
      }
    };
  }

  Node node() {
    return node;
  }

  /** Done when the scenario ends, before its queues are deleted. */
  void later(Check.Action action) {
    ends.push(action);
  }

  /** A name nobody else uses. */
  String name(String what) {
    return prefix + "." + what;
  }

  /** A factory for this broker, without automatic recovery. */
  ConnectionFactory factory() {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(node.host());
    factory.setPort(node.port());
    factory.setUsername(node.user());
    factory.setPassword(node.password());
    factory.setAutomaticRecoveryEnabled(false);
    factory.setConnectionTimeout(10_000);
    factory.setHandshakeTimeout(15_000);
    factory.setShutdownTimeout(5_000);
    return factory;
  }

  Connection connect() throws Exception {
    return connect(factory());
  }

  Connection connect(ConnectionFactory factory) throws Exception {
    Connection connection = factory.newConnection(prefix);
    connections.push(connection);
    return connection;
  }

  /** A channel on a connection of its own. */
  Channel channel() throws Exception {
    return connect().createChannel();
  }

  /** Declares a durable queue that goes when the scenario ends. */
  String queue(Channel channel, String what) throws Exception {
    return queue(channel, what, Map.of());
  }

  String queue(Channel channel, String what, Map<String, Object> arguments) throws Exception {
    String queue = name(what);
    channel.queueDeclare(queue, true, false, false, arguments);
    deleteQueueLater(queue);
    return queue;
  }

  void deleteQueueLater(String queue) {
    cleanups.push(channel -> channel.queueDelete(queue));
  }

  /** Declares a durable exchange that goes when the scenario ends. */
  String exchange(Channel channel, String what, String type) throws Exception {
    return exchange(channel, what, type, Map.of());
  }

  String exchange(Channel channel, String what, String type, Map<String, Object> arguments)
      throws Exception {
    String exchange = name(what);
    channel.exchangeDeclare(exchange, type, true, false, arguments);
    deleteExchangeLater(exchange);
    return exchange;
  }

  void deleteExchangeLater(String exchange) {
    cleanups.push(channel -> channel.exchangeDelete(exchange));
  }

  /** Publishes a persistent text. */
  static void publish(Channel channel, String exchange, String key, String text) throws Exception {
    channel.basicPublish(exchange, key, MessageProperties.MINIMAL_PERSISTENT_BASIC, bytes(text));
  }

  /** Publishes the texts "0", "1", ... and waits for the confirms; puts the channel in confirm mode. */
  static void publishNumbers(Channel channel, String queue, int n) throws Exception {
    channel.confirmSelect();
    for (int i = 0; i < n; i++) {
      publish(channel, "", queue, Integer.toString(i));
    }
    channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  @Override
  public void close() throws Exception {
    for (Connection connection : connections) {
      connection.abort(2_000);
    }
    for (Check.Action end : ends) {
      end.run();
    }
    if (cleanups.isEmpty() || !node.running()) {
      return;
    }
    try (Connection connection = factory().newConnection(prefix + ".cleanup")) {
      for (Cleanup cleanup : cleanups) {
        Channel channel = connection.createChannel();
        cleanup.run(channel);
      }
    }
  }
}
