package interop.amqp10;

import static interop.harness.Expect.equal;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.amqp.BackOffDelayPolicy;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConnectionBuilder;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Management.QueueType;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import interop.harness.Expect;
import interop.harness.Node;
import interop.harness.Suite;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** What one scenario works with: a connection, names of its own, and what is closed at its end. */
final class Bench implements AutoCloseable {
  interface Body {
    void run(Bench bench) throws Exception;
  }

  static final int N_MESSAGES = 500;

  final Node node;
  final Connection connection;
  private final String id;
  private final String token = UUID.randomUUID().toString().substring(0, 8);
  private final Environment environment = new AmqpEnvironmentBuilder().build();
  private final List<String> queues = new ArrayList<>();
  private final List<AutoCloseable> others = new ArrayList<>();

  private Bench(Node node, String id) {
    this.node = node;
    this.id = id;
    this.connection = connect();
  }

  static Suite.Body body(Body body) {
    return (node, id) -> {
      try (Bench bench = new Bench(node, id)) {
        body.run(bench);
      }
    };
  }

  ConnectionBuilder connecting() {
    return environment.connectionBuilder().host(node.host()).port(node.port())
        .username(node.user()).password(node.password())
        .recovery().backOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(100)))
        .connectionBuilder();
  }

  /** A further connection, which the environment closes. */
  Connection connect() {
    return connecting().build();
  }

  /** A channel of AMQP 0-9-1 with confirms. */
  Channel amqp091() throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(node.uri());
    com.rabbitmq.client.Connection other = factory.newConnection();
    others.add(other);
    Channel channel = other.createChannel();
    channel.confirmSelect();
    return channel;
  }

  Management management() {
    return connection.management();
  }

  String name(String suffix) {
    return String.join(".", "interop.amqp10-java", id, suffix, token);
  }

  /** The declaration of a queue, which is deleted at the end. */
  Management.QueueSpecification declaring(String suffix) {
    queues.add(name(suffix));
    return management().queue(name(suffix));
  }

  String queue() {
    return declaring("q").type(QueueType.CLASSIC).declare().name();
  }

  String quorum() {
    return declaring("q").type(QueueType.QUORUM).declare().name();
  }

  String stream() {
    return declaring("q").type(QueueType.STREAM).declare().name();
  }

  Publisher publisher(String queue) {
    return connection.publisherBuilder().queue(queue).build();
  }

  /** Waits until a queue has so many messages that are ready. */
  void waitMessages(String queue, long count) throws Exception {
    Expect.eventually(count, "messages of " + queue,
        () -> management().queueInfo(queue).messageCount());
  }

  /** Publishes and waits for the outcomes, in the order of the messages. */
  static List<Publisher.Context> publish(Publisher publisher, List<Message> messages)
      throws Exception {
    List<CompletableFuture<Publisher.Context>> outcomes = new ArrayList<>();
    for (Message message : messages) {
      CompletableFuture<Publisher.Context> outcome = new CompletableFuture<>();
      outcomes.add(outcome);
      publisher.publish(message, outcome::complete);
    }
    List<Publisher.Context> contexts = new ArrayList<>();
    for (CompletableFuture<Publisher.Context> outcome : outcomes) {
      contexts.add(outcome.get(Expect.WAIT_SECONDS, TimeUnit.SECONDS));
    }
    return contexts;
  }

  static void accepted(Publisher publisher, List<Message> messages) throws Exception {
    for (Publisher.Context context : publish(publisher, messages)) {
      equal(Publisher.Status.ACCEPTED, context.status(), "outcome");
    }
  }

  /** Publishes numbers as bodies. */
  static void publishNumbers(Publisher publisher, int begin, int end) throws Exception {
    accepted(publisher,
        numbers(begin, end).stream().map(text -> publisher.message(text.getBytes(UTF_8))).toList());
  }

  void publishNumbers(String queue, int end) throws Exception {
    try (Publisher publisher = publisher(queue)) {
      publishNumbers(publisher, 0, end);
    }
  }

  static List<String> numbers(int begin, int end) {
    return IntStream.range(begin, end).mapToObj(Integer::toString).toList();
  }

  @Override
  public void close() throws Exception {
    for (AutoCloseable other : others) {
      other.close();
    }
    try (Connection cleaning = connect()) {
      queues.forEach(queue -> cleaning.management().queueDelete(queue));
    } finally {
      environment.close();
    }
  }
}
