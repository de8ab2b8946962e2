package interop.streams;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;
import static interop.streams.Bench.body;
import static interop.streams.Bench.bytes;

import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import interop.harness.Suite;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;

/** Super streams: several streams that are published to and read as one. */
final class SuperStreams {
  private static final int N_MESSAGES = 300;

  private SuperStreams() {}

  static void register(Suite suite) {
    suite.add("stream-super-hash", body(SuperStreams::hash));
    suite.add("stream-super-key", body(SuperStreams::key));
  }

  /** Every message comes once, a key always from the same partition, and all partitions have some. */
  private static void hash(Bench bench) throws Exception {
    String name = bench.name("super");
    bench.environment.streamCreator().name(name).superStream().partitions(3).creator().create();
    try (Producer producer = bench.environment.producerBuilder().superStream(name)
        .routing(message -> Bench.text(message)).producerBuilder().build()) {
      Map<String, String> partitions = new ConcurrentHashMap<>();
      Bench.publishNumbers(producer, 0, N_MESSAGES);
      Bench.publishNumbers(producer, 0, N_MESSAGES);
      List<String> texts = read(bench, name, 2 * N_MESSAGES, partitions);
      List<String> expected = Bench.range(0, N_MESSAGES);
      expected.addAll(Bench.range(0, N_MESSAGES));
      expected.sort(null);
      texts.sort(null);
      equal(expected, texts, "messages");
      equal(3, new TreeSet<>(partitions.values()).size(), "partitions that have messages");
    }
    bench.environment.deleteSuperStream(name);
    that(!bench.environment.streamExists(name + "-0"), "a partition is left");
  }

  private static void key(Bench bench) throws Exception {
    String name = bench.name("super");
    bench.environment.streamCreator().name(name).superStream()
        .bindingKeys("emea", "amer", "apac").creator().create();
    try (Producer producer = bench.environment.producerBuilder().superStream(name)
        .routing(message -> Bench.text(message)).key().producerBuilder().build()) {
      List<Message> messages = new ArrayList<>();
      for (int i = 0; i < N_MESSAGES; i++) {
        String region = List.of("emea", "amer", "apac").get(i % 3);
        messages.add(producer.messageBuilder().addData(bytes(region)).build());
      }
      Bench.publish(producer, messages);
      Map<String, String> partitions = new ConcurrentHashMap<>();
      read(bench, name, N_MESSAGES, partitions);
      equal(Map.of("emea", name + "-emea", "amer", name + "-amer", "apac", name + "-apac"),
          partitions, "partition of each key");
    }
    bench.environment.deleteSuperStream(name);
  }

  /** Reads, and notes the partition of each text; one text comes from one partition. */
  private static List<String> read(Bench bench, String name, int n, Map<String, String> partitions)
      throws Exception {
    BlockingQueue<String> texts = new LinkedBlockingQueue<>();
    try (Consumer consumer = bench.environment.consumerBuilder().superStream(name)
        .offset(OffsetSpecification.first()).messageHandler((context, message) -> {
          String text = Bench.text(message);
          String before = partitions.putIfAbsent(text, context.stream());
          boolean moved = before != null && !before.equals(context.stream());
          texts.add(moved ? text + " of two partitions" : text);
        }).build()) {
      return Bench.take(texts, n);
    }
  }
}
