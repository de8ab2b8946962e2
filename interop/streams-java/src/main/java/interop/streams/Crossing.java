package interop.streams;

import static interop.harness.Expect.equal;
import static interop.streams.Bench.body;
import static interop.streams.Bench.bytes;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.compression.Compression;
import interop.harness.Expect;
import interop.harness.Suite;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** One stream with two protocols: the stream protocol and AMQP 0-9-1. */
final class Crossing {
  private static final int N_MESSAGES = 1_000;

  private Crossing() {}

  static void register(Suite suite) {
    suite.add("stream-from-amqp091", body(Crossing::fromAmqp));
    suite.add("stream-to-amqp091", body(Crossing::toAmqp));
    suite.add("stream-compression-none", body(bench -> compressed(bench, Compression.NONE)));
    suite.add("stream-compression-gzip", body(bench -> compressed(bench, Compression.GZIP)));
    suite.add("stream-compression-snappy", body(bench -> compressed(bench, Compression.SNAPPY)));
    suite.add("stream-compression-lz4", body(bench -> compressed(bench, Compression.LZ4)));
    suite.add("stream-compression-zstd", body(bench -> compressed(bench, Compression.ZSTD)));
  }

  private static void fromAmqp(Bench bench) throws Exception {
    String stream = bench.stream();
    BasicProperties properties = new BasicProperties.Builder()
        .messageId("id-1").correlationId("corr-1").contentType("text/plain").contentEncoding("utf-8")
        .replyTo("answers").type("greeting").appId("suite").userId(bench.node.user())
        .timestamp(new Date(1_700_000_000_000L)).priority(7).deliveryMode(2)
        .headers(Map.of("number", 42L, "text", "hare", "yes", true)).build();
    try (Connection connection = bench.amqp().newConnection();
        Channel channel = connection.createChannel()) {
      channel.confirmSelect();
      channel.basicPublish("", stream, properties, bytes("hello"));
      channel.waitForConfirmsOrDie(Expect.WAIT_SECONDS * 1000);
    }
    Message message = readOne(bench, stream);
    equal("hello", Bench.text(message), "body");
    equal("id-1", message.getProperties().getMessageIdAsString(), "message id");
    equal("corr-1", message.getProperties().getCorrelationIdAsString(), "correlation id");
    equal("text/plain", message.getProperties().getContentType(), "content type");
    equal("utf-8", message.getProperties().getContentEncoding(), "content encoding");
    equal(1_700_000_000_000L, message.getProperties().getCreationTime(), "creation time");
    equal(bench.node.user(), new String(message.getProperties().getUserId(), StandardCharsets.UTF_8),
        "user id");
    equal(42L, message.getApplicationProperties().get("number"), "number");
    equal("hare", message.getApplicationProperties().get("text"), "text");
    equal(true, message.getApplicationProperties().get("yes"), "boolean");
    equal(stream, message.getMessageAnnotations().get("x-routing-key"), "routing key");
    equal("", message.getMessageAnnotations().get("x-exchange"), "exchange");
  }

  private static Message readOne(Bench bench, String stream) throws Exception {
    BlockingQueue<Message> messages = new LinkedBlockingQueue<>();
    try (Consumer consumer = bench.consumer(stream, OffsetSpecification.first())
        .messageHandler((context, message) -> messages.add(message)).build()) {
      Message message = messages.poll(Expect.WAIT_SECONDS, TimeUnit.SECONDS);
      Expect.that(message != null, "no message came");
      return message;
    }
  }

  private record Delivery(BasicProperties properties, String text) {}

  private static void toAmqp(Bench bench) throws Exception {
    String stream = bench.stream();
    try (Producer producer = bench.producer(stream)) {
      Bench.publish(producer, List.of(producer.messageBuilder()
          .properties().messageId("id-1").correlationId("corr-1").contentType("text/plain")
          .messageBuilder().applicationProperties().entry("number", 42L).entry("text", "hare")
          .messageBuilder().addData(bytes("hello")).build()));
    }
    Delivery delivery = readAmqp(bench, stream, 1).take();
    equal("hello", delivery.text, "body");
    equal("id-1", delivery.properties.getMessageId(), "message id");
    equal("corr-1", delivery.properties.getCorrelationId(), "correlation id");
    equal("text/plain", delivery.properties.getContentType(), "content type");
    equal(42L, delivery.properties.getHeaders().get("number"), "number");
    equal("hare", delivery.properties.getHeaders().get("text").toString(), "text");
    equal(0L, delivery.properties.getHeaders().get("x-stream-offset"), "offset");
  }

  private static void compressed(Bench bench, Compression compression) throws Exception {
    String stream = bench.stream();
    try (Producer producer = bench.environment.producerBuilder().stream(stream)
        .subEntrySize(100).compression(compression).build()) {
      Bench.publishNumbers(producer, 0, N_MESSAGES);
    }
    equal(Bench.range(0, N_MESSAGES),
        Bench.read(bench.consumer(stream, OffsetSpecification.first()), N_MESSAGES),
        "messages over the stream protocol");
    equal(Bench.range(0, N_MESSAGES),
        readAmqp(bench, stream, N_MESSAGES).stream().map(Delivery::text).toList(),
        "messages over AMQP 0-9-1");
  }

  /** The first {@code n} deliveries of AMQP 0-9-1. */
  private static BlockingQueue<Delivery> readAmqp(Bench bench, String stream, int n)
      throws Exception {
    BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
    try (Connection connection = bench.amqp().newConnection();
        Channel channel = connection.createChannel()) {
      channel.basicQos(100);
      channel.basicConsume(stream, false, Map.of("x-stream-offset", "first"), (tag, delivery) -> {
        deliveries.add(new Delivery(delivery.getProperties(),
            new String(delivery.getBody(), StandardCharsets.UTF_8)));
        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
      }, tag -> {});
      Expect.eventually(n, "deliveries of AMQP 0-9-1", deliveries::size);
    }
    return deliveries;
  }
}
