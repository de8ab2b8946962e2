package interop.jms;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import interop.harness.Node;
import interop.harness.Suite;
import java.util.List;

/** Runs the scenarios of interop/jms/README.md with com.rabbitmq.jms:rabbitmq-jms. */
public final class Main {
  /** What the client declares for its destinations, whoever asks for them. */
  private static final List<String> EXCHANGES = List.of(
      "jms.durable.queues", "jms.durable.topic", "jms.temp.queues", "jms.temp.topic",
      "jms.delayed.exchange");

  private Main() {}

  public static void main(String[] wanted) throws Exception {
    Suite suite = new Suite("jms");
    Queues.register(suite);
    Messages.register(suite);
    Sessions.register(suite);
    Topics.register(suite);
    Replies.register(suite);
    Ends.register(suite);
    suite.atEnd((node, id) -> deleteExchanges(node));
    System.exit(suite.run(wanted));
  }

  private static void deleteExchanges(Node node) throws Exception {
    try (Connection connection = Bench.amqp(node)) {
      for (String exchange : EXCHANGES) {
        Channel channel = connection.createChannel();
        channel.exchangeDelete(exchange);
        channel.close();
      }
    }
  }
}
