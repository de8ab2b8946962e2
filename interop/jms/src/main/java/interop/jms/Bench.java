package interop.jms;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.eventually;
import static interop.harness.Expect.that;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.jms.admin.RMQConnectionFactory;
import interop.harness.Expect;
import interop.harness.Node;
import interop.harness.Skip;
import interop.harness.Suite;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** What one scenario works with: its connections, which end with it, and its names. */
final class Bench implements AutoCloseable {
  /** The steps of a scenario. */
  interface Steps {
    void run(Bench bench) throws Exception;
  }

  static final long WAIT_MILLIS = TimeUnit.SECONDS.toMillis(Expect.WAIT_SECONDS);

  final Node node;
  private final String prefix;
  private final List<String> names = new ArrayList<>();
  private final List<Connection> connections = new ArrayList<>();

  private Bench(Node node, String id) {
    this.node = node;
    this.prefix = "interop.jms." + id + "." + UUID.randomUUID();
  }

  static Suite.Body body(Steps steps) {
    return (node, id) -> {
      try (Bench bench = new Bench(node, id)) {
        steps.run(bench);
      }
    };
  }

  /** A name nobody else uses; the queue of it goes when the scenario ends. */
  String name(String what) {
    names.add(prefix + "." + what);
    return prefix + "." + what;
  }

  static com.rabbitmq.client.Connection amqp(Node node) throws Exception {
    com.rabbitmq.client.ConnectionFactory factory = new com.rabbitmq.client.ConnectionFactory();
    factory.setHost(node.host());
    factory.setPort(node.port());
    factory.setUsername(node.user());
    factory.setPassword(node.password());
    return factory.newConnection();
  }

  RMQConnectionFactory factory() {
    RMQConnectionFactory factory = new RMQConnectionFactory();
    factory.setHost(node.host());
    factory.setPort(node.port());
    factory.setUsername(node.user());
    factory.setPassword(node.password());
    return factory;
  }

  /** A started connection. */
  Connection connection() throws JMSException {
    return connection(factory());
  }

  Connection connection(RMQConnectionFactory factory) throws JMSException {
    Connection connection = factory.createConnection();
    connections.add(connection);
    connection.start();
    return connection;
  }

  /** A session of its own connection that acknowledges by itself. */
  Session session() throws JMSException {
    return connection().createSession(false, Session.AUTO_ACKNOWLEDGE);
  }

  Queue queue(Session session) throws JMSException {
    return session.createQueue(name("q"));
  }

  static void send(Session session, Destination destination, String... texts)
      throws JMSException {
    try (MessageProducer producer = session.createProducer(destination)) {
      for (String text : texts) {
        producer.send(session.createTextMessage(text));
      }
    }
  }

  static String text(Message message) throws JMSException {
    return message == null ? null : ((TextMessage) message).getText();
  }

  /** The next messages, which must come. */
  static List<Message> take(MessageConsumer consumer, int n) throws JMSException {
    List<Message> taken = new ArrayList<>();
    while (taken.size() < n) {
      Message message = consumer.receive(WAIT_MILLIS);
      that(message != null, "only " + taken.size() + " of " + n + " messages came");
      taken.add(message);
    }
    return taken;
  }

  static List<String> texts(List<Message> messages) throws JMSException {
    List<String> texts = new ArrayList<>();
    for (Message message : messages) {
      texts.add(text(message));
    }
    return texts;
  }

  static List<String> takeTexts(MessageConsumer consumer, int n) throws JMSException {
    return texts(take(consumer, n));
  }

  static String[] numbers(int n) {
    String[] texts = new String[n];
    for (int i = 0; i < n; i++) {
      texts[i] = Integer.toString(i);
    }
    return texts;
  }

  /** Waits until so many messages of the queue are ready. */
  void ready(Queue queue, long expected) throws Exception {
    try (com.rabbitmq.client.Connection connection = amqp(node)) {
      Channel channel = connection.createChannel();
      String name = queue.getQueueName();
      eventually(expected, "messages ready", () -> channel.messageCount(name));
    }
  }

  boolean exists(String queue) throws Exception {
    try (com.rabbitmq.client.Connection connection = amqp(node)) {
      connection.createChannel().queueDeclarePassive(queue);
      return true;
    } catch (IOException missing) {
      that(missing.getCause() instanceof com.rabbitmq.client.ShutdownSignalException closed
          && closed.getReason() instanceof AMQP.Channel.Close close
          && close.getReplyCode() == AMQP.NOT_FOUND, "404 for what is not there");
      return false;
    }
  }

  /** Skips where the broker has no exchanges of this type. */
  void needsExchangeType(String type, Map<String, Object> arguments) throws Exception {
    try (com.rabbitmq.client.Connection connection = amqp(node)) {
      String name = name("x");
      Channel channel = connection.createChannel();
      channel.exchangeDeclare(name, type, false, true, arguments);
      channel.exchangeDelete(name);
    } catch (IOException refused) {
      equal(false, node.restartable(), "a node has exchanges of type " + type);
      throw new Skip("needs exchanges of type " + type);
    }
  }

  @Override
  public void close() throws Exception {
    for (Connection connection : connections) {
      try {
        connection.close();
      } catch (JMSException gone) {
        // It was to be closed.
      }
    }
    try (com.rabbitmq.client.Connection connection = amqp(node)) {
      Channel channel = connection.createChannel();
      for (String name : names) {
        channel.queueDelete(name);
      }
    }
  }
}
