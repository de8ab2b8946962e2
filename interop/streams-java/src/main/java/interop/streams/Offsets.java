package interop.streams;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.eventually;
import static interop.harness.Expect.that;
import static interop.streams.Bench.body;

import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.ConsumerBuilder;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import interop.harness.Suite;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;

/** Where consumers begin. */
final class Offsets {
  private static final int N_MESSAGES = 1_000;

  private Offsets() {}

  static void register(Suite suite) {
    suite.add("stream-offset-first", body(Offsets::first));
    suite.add("stream-offset-number", body(Offsets::number));
    suite.add("stream-offset-last", body(Offsets::last));
    suite.add("stream-offset-next", body(Offsets::next));
    suite.add("stream-offset-timestamp", body(Offsets::timestamp));
    suite.add("stream-offset-stored", body(Offsets::stored));
  }

  private static String filled(Bench bench) throws Exception {
    String stream = bench.stream();
    try (Producer producer = bench.producer(stream)) {
      Bench.publishNumbers(producer, 0, N_MESSAGES);
    }
    return stream;
  }

  private static void first(Bench bench) throws Exception {
    String stream = filled(bench);
    equal(Bench.range(0, N_MESSAGES),
        Bench.read(bench.consumer(stream, OffsetSpecification.first()), N_MESSAGES), "messages");
  }

  private static void number(Bench bench) throws Exception {
    String stream = filled(bench);
    equal(Bench.range(777, N_MESSAGES),
        Bench.read(bench.consumer(stream, OffsetSpecification.offset(777)), N_MESSAGES - 777),
        "messages");
  }

  /** The last chunk is that of the one message published alone. */
  private static void last(Bench bench) throws Exception {
    String stream = filled(bench);
    try (Producer producer = bench.producer(stream)) {
      Bench.publishNumbers(producer, N_MESSAGES, N_MESSAGES + 1);
    }
    equal(Bench.range(N_MESSAGES, N_MESSAGES + 1),
        Bench.read(bench.consumer(stream, OffsetSpecification.last()), 1), "messages");
  }

  private static void next(Bench bench) throws Exception {
    String stream = filled(bench);
    BlockingQueue<String> texts = new LinkedBlockingQueue<>();
    ConsumerBuilder builder = bench.consumer(stream, OffsetSpecification.next())
        .messageHandler((context, message) -> texts.add(Bench.text(message)));
    try (Consumer consumer = builder.build(); Producer producer = bench.producer(stream)) {
      Bench.publishNumbers(producer, N_MESSAGES, N_MESSAGES + 10);
      equal(Bench.range(N_MESSAGES, N_MESSAGES + 10), Bench.take(texts, 10), "messages");
    }
  }

  /** The clock passes on between two waves; the second wave's first chunk is that of its time. */
  private static void timestamp(Bench bench) throws Exception {
    String stream = filled(bench);
    AtomicLong end = new AtomicLong();
    BlockingQueue<String> texts = new LinkedBlockingQueue<>();
    ConsumerBuilder builder = bench.consumer(stream, OffsetSpecification.first())
        .messageHandler((context, message) -> {
          end.accumulateAndGet(context.timestamp(), Math::max);
          texts.add(Bench.text(message));
        });
    try (Consumer consumer = builder.build()) {
      Bench.take(texts, N_MESSAGES);
    }
    eventually(true, "time passes", () -> System.currentTimeMillis() > end.get() + 1);
    try (Producer producer = bench.producer(stream)) {
      Bench.publishNumbers(producer, N_MESSAGES, N_MESSAGES + 10);
    }
    equal(Bench.range(N_MESSAGES, N_MESSAGES + 10),
        Bench.read(bench.consumer(stream, OffsetSpecification.timestamp(end.get() + 1)), 10),
        "messages");
  }

  private static void stored(Bench bench) throws Exception {
    String stream = filled(bench);
    try (Consumer consumer = bench.consumer(stream, OffsetSpecification.first()).name("reader")
        .manualTrackingStrategy().builder().messageHandler((context, message) -> {
          if (context.offset() == 499) {
            context.storeOffset();
          }
        }).build()) {
      eventually(true, "an offset is stored", () -> storedOffset(consumer) == 499);
    }
    List<String> rest = Bench.read(bench.consumer(stream, OffsetSpecification.first())
        .name("reader").manualTrackingStrategy().builder(), N_MESSAGES - 500);
    equal(Bench.range(500, N_MESSAGES), rest, "messages after the stored offset");
    that(bench.environment.queryStreamStats(stream).firstOffset() == 0, "nothing is let go of");
  }

  private static long storedOffset(Consumer consumer) {
    try {
      return consumer.storedOffset();
    } catch (com.rabbitmq.stream.NoOffsetException none) {
      return -1;
    }
  }
}
