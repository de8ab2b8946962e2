package interop.amqp10;

import static interop.amqp10.Bench.N_MESSAGES;
import static interop.amqp10.Bench.body;
import static interop.harness.Expect.equal;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.amqp.ConsumerBuilder.StreamOffsetSpecification;
import com.rabbitmq.client.amqp.ConsumerBuilder.StreamOptions;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import interop.harness.Suite;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;

/** Offsets and filters of streams. */
final class Streams {
  /** A value of the last message, so that a reader knows that it has seen all. */
  private static final String LAST = "last";

  private Streams() {}

  static void register(Suite suite) {
    suite.add("stream-offsets", body(Streams::offsets));
    suite.add("stream-bloom-filters", body(Streams::bloom));
    suite.add("property-filters", body(Streams::properties));
    suite.add("sql-filters", body(Streams::sql));
    suite.add("filter-that-passes-nothing", body(Streams::passesNothing));
  }

  /** The bodies of the first `count` messages that pass. */
  private static List<String> read(Bench bench, String stream, int count,
      UnaryOperator<StreamOptions> options) throws Exception {
    Inbox inbox = new Inbox();
    StreamOptions stands = bench.connection.consumerBuilder().queue(stream).messageHandler(
        (context, message) -> {
          context.accept();
          inbox.handle(context, message);
        }).stream();
    try (var consumer = options.apply(stands).builder().build()) {
      return inbox.next(count).stream().map(Inbox.Delivery::text).toList();
    }
  }

  private static void offsets(Bench bench) throws Exception {
    String stream = bench.stream();
    bench.publishNumbers(stream, 20);
    List<String> all = Bench.numbers(0, 20);
    equal(all, read(bench, stream, 20, it -> it.offset(StreamOffsetSpecification.FIRST)), "from the first on");
    equal(Bench.numbers(15, 20), read(bench, stream, 5, it -> it.offset(15)), "from an offset on");
    equal(all, read(bench, stream, 20, it -> it.offset("1h")), "from an hour ago on");
    equal(all, read(bench, stream, 20, it -> it.offset(Instant.now().minus(Duration.ofHours(1)))), "from a time on");
    Inbox inbox = new Inbox();
    bench.connection.consumerBuilder().queue(stream).messageHandler(inbox).stream()
        .offset(StreamOffsetSpecification.NEXT).builder().build();
    bench.publishNumbers(stream, 1);
    Message message = inbox.next().message();
    equal(20L, message.annotation("x-stream-offset"), "offset of the next");
  }

  private static void bloom(Bench bench) throws Exception {
    String stream = bench.stream();
    try (Publisher publisher = bench.publisher(stream)) {
      for (String value : List.of("red", "blue", "", LAST)) {
        Message message = publisher.message(value.getBytes(UTF_8));
        Bench.accepted(publisher,
            List.of(value.isEmpty() ? message : message.annotation("x-stream-filter-value", value)));
      }
    }
    UnaryOperator<StreamOptions> first = it -> it.offset(StreamOffsetSpecification.FIRST);
    equal(List.of("red", LAST), read(bench, stream, 2, it -> first.apply(it).filterValues("red", LAST)), "values");
    equal(List.of("blue", "", LAST), read(bench, stream, 3,
        it -> first.apply(it).filterValues("blue", LAST).filterMatchUnfiltered(true)), "without a value too");
  }

  private static void publishOrders(Bench bench, String stream) throws Exception {
    try (Publisher publisher = bench.publisher(stream)) {
      Bench.accepted(publisher, IntStream.range(0, 200).mapToObj(n ->
          publisher.message(Integer.toString(n).getBytes(UTF_8)).subject("order." + (n % 2 == 0 ? "us" : "eu"))
              .groupId("g").messageId((long) n).property("n", n).property("colour", n % 10 == 0 ? "blue" : "red"))
          .toList());
    }
  }

  private static void properties(Bench bench) throws Exception {
    String stream = bench.stream();
    publishOrders(bench, stream);
    equal(IntStream.range(0, 20).mapToObj(n -> Integer.toString(n * 10)).toList(),
        read(bench, stream, 20, it -> it.offset(StreamOffsetSpecification.FIRST)
            .filter().subject("&s:.us").groupId("&p:g").property("colour", "blue").stream()), "by properties");
    equal(List.of("77"), read(bench, stream, 1, it -> it.offset(StreamOffsetSpecification.FIRST)
        .filter().messageId(77L).property("n", 77).stream()), "by numbers");
  }

  private static void sql(Bench bench) throws Exception {
    String stream = bench.stream();
    publishOrders(bench, stream);
    equal(List.of("191", "193", "195", "197", "199"),
        read(bench, stream, 5, it -> it.offset(StreamOffsetSpecification.FIRST)
            .filter().sql("properties.subject LIKE '%.eu' AND n > 190").stream()), "by SQL");
    equal(List.of("10", "30"), read(bench, stream, 2, it -> it.offset(StreamOffsetSpecification.FIRST)
        .filter().sql("n IN (10, 30) OR NOT (colour IS NOT NULL)").stream()), "by a set");
  }

  private static void passesNothing(Bench bench) throws Exception {
    String stream = bench.stream();
    bench.publishNumbers(stream, N_MESSAGES);
    Inbox inbox = new Inbox();
    try (var consumer = bench.connection.consumerBuilder().queue(stream).messageHandler(inbox).stream()
        .offset(StreamOffsetSpecification.FIRST).filter().sql("missing = 1").stream().builder().build()) {
      equal(Bench.numbers(0, N_MESSAGES),
          read(bench, stream, N_MESSAGES, it -> it.offset(StreamOffsetSpecification.FIRST)), "what another reads");
    }
    equal(0, inbox.size(), "deliveries");
  }
}
