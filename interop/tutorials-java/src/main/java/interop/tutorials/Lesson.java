package interop.tutorials;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import interop.harness.Node;
import interop.harness.Suite;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** One tutorial on one node: every program of it gets a connection of its own, as in real life. */
final class Lesson implements AutoCloseable {
  /** The programs of a tutorial. */
  interface Programs {
    void play(Lesson lesson) throws Exception;
  }

  static final long WAIT_SECONDS = 10;

  private final ConnectionFactory factory = new ConnectionFactory();
  private final String suffix = UUID.randomUUID().toString();
  private final List<Connection> connections = new ArrayList<>();

  private Lesson(Node node) throws Exception {
    factory.setUri(node.uri());
  }

  static Suite.Body of(Programs programs) {
    return (node, id) -> {
      try (Lesson lesson = new Lesson(node)) {
        programs.play(lesson);
      }
    };
  }

  /** The tutorial's name for a queue or exchange, made unique. */
  String name(String tutorialName) {
    return "interop.tutorials-java." + tutorialName + "." + suffix;
  }

  /** What every program of the tutorials begins with. */
  Channel program() throws Exception {
    Connection connection = factory.newConnection();
    connections.add(connection);
    return connection.createChannel();
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static String text(byte[] body) {
    return new String(body, StandardCharsets.UTF_8);
  }

  static String next(BlockingQueue<String> received) throws InterruptedException {
    String message = received.poll(WAIT_SECONDS, TimeUnit.SECONDS);
    if (message == null) {
      throw new AssertionError("no message after " + WAIT_SECONDS + " s");
    }
    return message;
  }

  static void expect(Object expected, Object actual) {
    if (!Objects.equals(expected, actual)) {
      throw new AssertionError("expected " + expected + ", got " + actual);
    }
  }

  @Override
  public void close() throws Exception {
    for (Connection connection : connections) {
      connection.abort();
    }
  }
}
