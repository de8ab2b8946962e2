package interop.amqp10jms;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.eventually;
import static interop.harness.Expect.that;

import com.rabbitmq.client.Channel;
import interop.harness.Expect;
import interop.harness.Node;
import interop.harness.Suite;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What one scenario works with: its connections, which end with it, and its names. */
final class Bench implements AutoCloseable {
  /** The steps of a scenario. */
  interface Steps {
    void run(Bench bench) throws Exception;
  }

  /** Something that is refused. */
  interface Act {
    void run() throws Exception;
  }

  static final long WAIT_MILLIS = TimeUnit.SECONDS.toMillis(Expect.WAIT_SECONDS);
  /** Long enough for what must not come. */
  static final long SHORT_MILLIS = 200;

  final Node node;
  private final String prefix;
  private final List<String> queues = new ArrayList<>();
  private com.rabbitmq.client.Connection amqp;
  private final List<Connection> connections = new ArrayList<>();

  private Bench(Node node, String id) throws Exception {
    this.node = node;
    this.prefix = "interop.jms." + id;
    reconnect();
  }

  /** Connects anew, after the node has been killed. */
  void reconnect() throws Exception {
    com.rabbitmq.client.ConnectionFactory factory = new com.rabbitmq.client.ConnectionFactory();
    factory.setUri(node.uri());
    if (amqp != null) {
      amqp.abort();
    }
    amqp = factory.newConnection();
  }

  static Suite.Body body(Steps steps) {
    return (node, id) -> {
      try (Bench bench = new Bench(node, id)) {
        steps.run(bench);
      }
    };
  }

  String name(String what) {
    return prefix + "." + what;
  }

  static JmsConnectionFactory factory(String authority) {
    return new JmsConnectionFactory("guest", "guest", "amqp://" + authority);
  }

  String authority() {
    return node.host() + ":" + node.port();
  }

  /** A started connection. */
  Connection connection() throws JMSException {
    return connection(null);
  }

  Connection connection(String clientId) throws JMSException {
    JmsConnectionFactory factory = factory(authority());
    factory.setClientID(clientId);
    Connection connection = factory.createConnection();
    connections.add(connection);
    connection.start();
    return connection;
  }

  /** A session of its own connection that acknowledges by itself. */
  Session session() throws JMSException {
    return connection().createSession(false, Session.AUTO_ACKNOWLEDGE);
  }

  /** A transacted session of its own connection. */
  Session transacted() throws JMSException {
    return connection().createSession(true, Session.SESSION_TRANSACTED);
  }

  /** A queue of this type, whose JMS name is its address. */
  Queue queue(Session session, String type) throws Exception {
    String name = name(type);
    amqp.createChannel().queueDeclare(name, true, false, false, Map.of("x-queue-type", type));
    queues.add(name);
    return session.createQueue("/queues/" + name);
  }

  void delete(String type) throws Exception {
    amqp.createChannel().queueDelete(name(type));
  }

  static void send(Session session, Destination destination, String... texts)
      throws JMSException {
    try (MessageProducer producer = session.createProducer(destination)) {
      for (String text : texts) {
        producer.send(session.createTextMessage(text));
      }
    }
  }

  /** The texts of the next messages, which must come. */
  static List<String> take(MessageConsumer consumer, int n) throws JMSException {
    List<String> taken = new ArrayList<>();
    while (taken.size() < n) {
      Message message = consumer.receive(WAIT_MILLIS);
      that(message != null, "only " + taken + " of " + n + " messages came");
      taken.add(message.getBody(String.class));
    }
    return taken;
  }

  /** Does what is refused, with this word; returns the refusal. */
  static JMSException refused(String word, Act act) throws Exception {
    try {
      act.run();
    } catch (JMSException refused) {
      that(refused.getMessage().contains(word), refused.getMessage());
      return refused;
    }
    throw new AssertionError("not refused: " + word);
  }

  static String[] numbers(int n) {
    return IntStream.range(0, n).mapToObj(Integer::toString).toArray(String[]::new);
  }

  static void none(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(SHORT_MILLIS);
    equal(null, message, "a message that was not to come");
  }

  /** Waits until so many messages of the queue are ready. */
  void ready(Queue queue, long expected) throws Exception {
    String name = queue.getQueueName().substring("/queues/".length());
    Channel channel = amqp.createChannel();
    eventually(expected, "messages ready", () -> channel.messageCount(name));
    channel.close();
  }

  @Override
  public void close() throws Exception {
    for (Connection connection : connections) {
      connection.close();
    }
    for (String queue : queues) {
      amqp.createChannel().queueDelete(queue);
    }
    amqp.close();
  }
}
