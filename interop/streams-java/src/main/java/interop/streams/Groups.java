package interop.streams;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.eventually;
import static interop.harness.Expect.that;
import static interop.streams.Bench.body;

import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.ConsumerBuilder;
import com.rabbitmq.stream.ConsumerUpdateListener;
import com.rabbitmq.stream.NoOffsetException;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import interop.harness.Suite;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;

/** Single active consumers: of a stream one of the group is given messages, of a super stream each a part. */
final class Groups {
  private Groups() {}

  static void register(Suite suite) {
    suite.add("stream-single-active", body(Groups::oneStream));
    suite.add("stream-super-single-active", body(Groups::superStream));
  }

  /** A consumer of a group, the streams it is active for, and what it is given. */
  private static final class Member implements AutoCloseable {
    final BlockingQueue<String> texts = new LinkedBlockingQueue<>();
    final Set<String> active = ConcurrentHashMap.newKeySet();
    final Consumer consumer;

    Member(ConsumerBuilder builder) {
      this.consumer = builder.name("group").singleActiveConsumer().offset(OffsetSpecification.first())
          .manualTrackingStrategy().builder()
          .consumerUpdateListener(this::updated)
          .messageHandler((context, message) -> texts.add(Bench.text(message))).build();
    }

    /** Goes on behind what the group has stored. */
    private OffsetSpecification updated(ConsumerUpdateListener.Context update) {
      if (!update.isActive()) {
        active.remove(update.stream());
        return null;
      }
      active.add(update.stream());
      try {
        return OffsetSpecification.offset(update.consumer().storedOffset() + 1);
      } catch (NoOffsetException none) {
        return OffsetSpecification.first();
      }
    }

    @Override
    public void close() {
      consumer.close();
    }
  }

  private static void oneStream(Bench bench) throws Exception {
    String stream = bench.stream();
    Member first = new Member(bench.environment.consumerBuilder().stream(stream));
    eventually(true, "the first is active", () -> first.active.contains(stream));
    try (Member second = new Member(bench.environment.consumerBuilder().stream(stream));
        Producer producer = bench.producer(stream)) {
      Bench.publishNumbers(producer, 0, 100);
      equal(Bench.range(0, 100), Bench.take(first.texts, 100), "messages of the first");
      that(second.texts.isEmpty(), "the second was given one too early");
      first.consumer.store(99);
      first.close();
      Bench.publishNumbers(producer, 100, 200);
      equal(Bench.range(100, 200), Bench.take(second.texts, 100), "messages of the second");
    }
  }

  private static void superStream(Bench bench) throws Exception {
    String name = bench.name("super");
    bench.environment.streamCreator().name(name).superStream().partitions(3).creator().create();
    Member first = new Member(bench.environment.consumerBuilder().superStream(name));
    eventually(3, "partitions of the first", () -> first.active.size());
    try (Member second = new Member(bench.environment.consumerBuilder().superStream(name));
        Producer producer = bench.environment.producerBuilder().superStream(name)
            .routing(message -> Bench.text(message)).producerBuilder().build()) {
      eventually(1, "partitions of the second", () -> second.active.size());
      eventually(2, "partitions that the first keeps", () -> first.active.size());
      Bench.publishNumbers(producer, 0, 300);
      eventually(300, "messages of both", () -> first.texts.size() + second.texts.size());
      List<String> texts = new ArrayList<>(first.texts);
      texts.addAll(second.texts);
      texts.sort(null);
      List<String> expected = Bench.range(0, 300);
      expected.sort(null);
      equal(expected, texts, "messages");
      first.close();
      eventually(3, "partitions of the second", () -> second.active.size());
    }
    bench.environment.deleteSuperStream(name);
  }
}
