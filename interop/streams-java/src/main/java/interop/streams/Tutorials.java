package interop.streams;

import static interop.harness.Expect.equal;
import static interop.streams.Bench.body;
import static interop.streams.Bench.bytes;

import com.rabbitmq.stream.ByteCapacity;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import interop.harness.Suite;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;

/** What the two programs of each of RabbitMQ's tutorials about streams do together. */
final class Tutorials {
  private Tutorials() {}

  static void register(Suite suite) {
    suite.add("stream-tutorials", body(Tutorials::both));
  }

  private static void both(Bench bench) throws Exception {
    String hello = keeping(bench, "hello", 5);
    try (Producer producer = bench.producer(hello)) {
      Bench.publish(producer, List.of(producer.messageBuilder().addData(bytes("Hello")).build()));
    }
    equal(List.of("Hello"), Bench.read(bench.consumer(hello, OffsetSpecification.first()), 1),
        "the first tutorial");
    String tracked = keeping(bench, "tracked", 2);
    for (int begin : List.of(0, 100)) {
      try (Producer producer = bench.producer(tracked)) {
        Bench.publishNumbers(producer, begin, begin + 100);
      }
      equal(Bench.range(begin, begin + 100), readTracked(bench, tracked, 100),
          "the second tutorial");
    }
  }

  /** A stream of so many gigabytes at most. */
  private static String keeping(Bench bench, String what, int gigabytes) {
    String stream = bench.name(what);
    bench.environment.streamCreator().stream(stream)
        .maxLengthBytes(ByteCapacity.GB(gigabytes)).create();
    return stream;
  }

  /** Goes on behind the offset that is stored; stores one for every tenth message. */
  private static List<String> readTracked(Bench bench, String stream, int n) throws Exception {
    BlockingQueue<String> texts = new LinkedBlockingQueue<>();
    AtomicInteger seen = new AtomicInteger();
    try (Consumer consumer = bench.consumer(stream, OffsetSpecification.first()).name("tutorial")
        .manualTrackingStrategy().builder().messageHandler((context, message) -> {
          if (seen.incrementAndGet() % 10 == 0) {
            context.storeOffset();
          }
          texts.add(Bench.text(message));
        }).build()) {
      return Bench.take(texts, n);
    }
  }
}
