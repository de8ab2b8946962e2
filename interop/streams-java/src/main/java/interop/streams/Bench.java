package interop.streams;

import static interop.harness.Expect.WAIT_SECONDS;
import static interop.harness.Expect.that;

import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.stream.Address;
import com.rabbitmq.stream.ConsumerBuilder;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import interop.harness.Node;
import interop.harness.Suite;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What one scenario works with: its environment, its names, and what it reads. */
final class Bench implements AutoCloseable {
  /** The steps of a scenario. */
  interface Steps {
    void run(Bench bench) throws Exception;
  }

  private static final Duration RETRY = Duration.ofMillis(200);

  final Node node;
  final Environment environment;
  private final String prefix;

  private Bench(Node node, String id) {
    this.node = node;
    this.prefix = "interop.streams-java." + id + "." + UUID.randomUUID();
    this.environment = environmentOf(node.user(), node.password(), "/");
  }

  Environment environmentOf(String user, String password, String vhost) {
    Address address = new Address(node.host(), node.streamPort());
    return Environment.builder()
        .host(node.host()).port(node.streamPort())
        .username(user).password(password).virtualHost(vhost)
        .addressResolver(told -> address)
        .recoveryBackOffDelayPolicy(attempt -> RETRY)
        .topologyUpdateBackOffDelayPolicy(attempt -> RETRY)
        .build();
  }

  static Suite.Body body(Steps steps) {
    return (node, id) -> {
      try (Bench bench = new Bench(node, id)) {
        steps.run(bench);
      }
    };
  }

  /** A name nobody else uses. */
  String name(String what) {
    return prefix + "." + what;
  }

  /** A new stream. */
  String stream() {
    String stream = name("s");
    environment.streamCreator().stream(stream).create();
    return stream;
  }

  ConnectionFactory amqp() {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(node.host());
    factory.setPort(node.port());
    factory.setUsername(node.user());
    factory.setPassword(node.password());
    return factory;
  }

  Producer producer(String stream) {
    return environment.producerBuilder().stream(stream).build();
  }

  /** Publishes the messages and waits until each is confirmed. */
  static void publish(Producer producer, List<Message> messages) throws Exception {
    CountDownLatch left = new CountDownLatch(messages.size());
    AtomicInteger refused = new AtomicInteger();
    for (Message message : messages) {
      producer.send(message, status -> {
        if (!status.isConfirmed()) {
          refused.incrementAndGet();
        }
        left.countDown();
      });
    }
    that(left.await(WAIT_SECONDS, TimeUnit.SECONDS), left.getCount() + " are not confirmed");
    that(refused.get() == 0, refused + " are refused");
  }

  /** Publishes the texts "from", ... up to "to" and waits for the confirms. */
  static void publishNumbers(Producer producer, int from, int to) throws Exception {
    publish(producer, numbers(producer, from, to));
  }

  /** Messages of the texts "from", ... up to "to", with these publishing ids. */
  static List<Message> numbers(Producer producer, int from, int to) {
    List<Message> messages = new ArrayList<>();
    for (int i = from; i < to; i++) {
      messages.add(producer.messageBuilder()
          .publishingId(i).addData(bytes(Integer.toString(i))).build());
    }
    return messages;
  }

  ConsumerBuilder consumer(String stream, OffsetSpecification offset) {
    return environment.consumerBuilder().stream(stream).offset(offset);
  }

  /** The next {@code n} texts that the consumer is given. */
  static List<String> read(ConsumerBuilder builder, int n) throws Exception {
    BlockingQueue<String> texts = new LinkedBlockingQueue<>();
    try (AutoCloseable consumer =
        builder.messageHandler((context, message) -> texts.add(text(message))).build()) {
      return take(texts, n);
    }
  }

  static List<String> take(BlockingQueue<String> texts, int n) throws Exception {
    List<String> taken = new ArrayList<>();
    while (taken.size() < n) {
      String text = texts.poll(WAIT_SECONDS, TimeUnit.SECONDS);
      that(text != null, "only " + taken.size() + " of " + n + " messages came");
      taken.add(text);
    }
    return taken;
  }

  /** The texts "from", ... up to "to". */
  static List<String> range(int from, int to) {
    List<String> texts = new ArrayList<>();
    for (int i = from; i < to; i++) {
      texts.add(Integer.toString(i));
    }
    return texts;
  }

  static String text(Message message) {
    return new String(message.getBodyAsBinary(), StandardCharsets.UTF_8);
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  @Override
  public void close() {
    environment.close();
  }
}
