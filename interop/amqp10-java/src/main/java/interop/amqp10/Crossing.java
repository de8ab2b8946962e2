package interop.amqp10;

import static interop.amqp10.Bench.body;
import static interop.harness.Expect.equal;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import interop.harness.Expect;
import interop.harness.Suite;
import java.time.Duration;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** One queue with two protocols. */
final class Crossing {
  private Crossing() {}

  static void register(Suite suite) {
    suite.add("from-amqp091", body(bench -> from(bench, bench.queue())));
    suite.add("from-amqp091-quorum", body(bench -> from(bench, bench.quorum())));
    suite.add("to-amqp091", body(bench -> to(bench, bench.queue())));
    suite.add("to-amqp091-quorum", body(bench -> to(bench, bench.quorum())));
  }

  private static void from(Bench bench, String queue) throws Exception {
    Channel channel = bench.amqp091();
    BasicProperties properties = new BasicProperties.Builder()
        .messageId("m").correlationId("c").contentType("text/plain").replyTo("r").appId("warren")
        .timestamp(new Date(1_700_000_000_000L)).priority(5).deliveryMode(2)
        .headers(Map.of("ears", 2L, "x-mine", "yes")).build();
    channel.basicPublish("", queue, properties, "hello".getBytes(UTF_8));
    channel.waitForConfirmsOrDie(Expect.WAIT_SECONDS * 1000);
    Inbox inbox = new Inbox();
    bench.connection.consumerBuilder().queue(queue).messageHandler(inbox).build();
    Inbox.Delivery delivery = inbox.next();
    Message message = delivery.message();
    equal(List.of("hello", "m", "c", "text/plain", "/queues/r", "warren", 1_700_000_000_000L),
        List.of(delivery.text(), message.messageIdAsString(), message.correlationIdAsString(),
            message.contentType(), message.replyTo(), message.groupId(), message.creationTime()), "properties");
    equal(List.of(true, (byte) 5), List.of(message.durable(), message.priority()), "header");
    equal(List.of(2L, "yes"), List.of(message.property("ears"), message.annotation("x-mine")), "headers");
    delivery.context().accept();
  }

  private static void to(Bench bench, String queue) throws Exception {
    try (Publisher publisher = bench.publisher(queue)) {
      Bench.accepted(publisher, List.of(publisher.message("hello".getBytes(UTF_8)).messageId("m")
          .ttl(Duration.ofMinutes(1)).replyTo("/queues/a%20b").groupId("warren")
          .annotation("x-mine", "yes").property("ears", 2).property("name", "leveret")));
    }
    GetResponse got = bench.amqp091().basicGet(queue, true);
    BasicProperties properties = got.getProps();
    equal(List.of("hello", "m", "a b", "warren", 2, "60000"),
        List.of(new String(got.getBody(), UTF_8), properties.getMessageId(), properties.getReplyTo(),
            properties.getAppId(), properties.getDeliveryMode(), properties.getExpiration()), "properties");
    equal("{ears=2, name=leveret, x-mine=yes}", new TreeMap<>(properties.getHeaders()).toString(), "headers");
  }
}
