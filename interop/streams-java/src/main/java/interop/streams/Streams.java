package interop.streams;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;
import static interop.streams.Bench.body;
import static interop.streams.Bench.bytes;

import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.StreamException;
import com.rabbitmq.stream.StreamStats;
import interop.harness.Suite;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** Streams as they are declared, and what is published to them. */
final class Streams {
  private Streams() {}

  static void register(Suite suite) {
    suite.add("stream-declare-delete", body(Streams::declareDelete));
    suite.add("stream-publish-confirm", body(Streams::publishConfirm));
    suite.add("stream-deduplication", body(Streams::deduplication));
    suite.add("stream-filter", body(Streams::filter));
  }

  private static void declareDelete(Bench bench) {
    String stream = bench.stream();
    that(bench.environment.streamExists(stream), "it is not there");
    bench.environment.streamCreator().stream(stream).create();
    try {
      bench.environment.streamCreator().stream(stream).argument("max-age", "60s").create();
      throw new AssertionError("declared again with another argument");
    } catch (StreamException refused) {
      equal((short) 17, refused.getCode(), "response code");
    }
    bench.environment.deleteStream(stream);
    that(!bench.environment.streamExists(stream), "it is there still");
    try {
      bench.environment.deleteStream(stream);
      throw new AssertionError("deleted twice");
    } catch (StreamException refused) {
      equal((short) 2, refused.getCode(), "response code");
    }
  }

  private static void publishConfirm(Bench bench) throws Exception {
    String stream = bench.stream();
    try (Producer producer = bench.producer(stream)) {
      Bench.publishNumbers(producer, 0, 10_000);
    }
    equal(Bench.range(0, 10_000),
        Bench.read(bench.consumer(stream, OffsetSpecification.first()), 10_000), "messages");
    StreamStats stats = bench.environment.queryStreamStats(stream);
    equal(0L, stats.firstOffset(), "first offset");
    equal(9_999L, stats.committedOffset(), "committed offset");
  }

  private static void deduplication(Bench bench) throws Exception {
    String stream = bench.stream();
    for (int from : List.of(0, 50)) {
      try (Producer producer =
          bench.environment.producerBuilder().stream(stream).name("writer").build()) {
        equal((long) (from == 0 ? 0 : 99), producer.getLastPublishingId(), "last publishing id");
        Bench.publishNumbers(producer, from, from + 100);
      }
    }
    try (Producer marker = bench.producer(stream)) {
      Bench.publishNumbers(marker, 1_000, 1_001);
    }
    List<String> expected = Bench.range(0, 150);
    expected.add("1000");
    equal(expected,
        Bench.read(bench.consumer(stream, OffsetSpecification.first()), 151), "messages");
  }

  /** Each wave is a chunk or several of one filter value: those of another are passed over. */
  private static void filter(Bench bench) throws Exception {
    String stream = bench.stream();
    for (String region : List.of("north", "south", "none", "north")) {
      try (Producer producer = bench.environment.producerBuilder().stream(stream)
          .filterValue(message -> region.equals("none") ? null : region).build()) {
        List<Message> wave = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
          wave.add(producer.messageBuilder().addData(bytes(region)).build());
        }
        Bench.publish(producer, wave);
      }
    }
    equal(Collections.nCopies(400, "north"), filtered(bench, stream, false, 400), "north alone");
    equal(Set.of("north", "none"), new TreeSet<>(filtered(bench, stream, true, 600)),
        "north, and what has no value");
  }

  /** The client's own filter takes everything: what is left out, the broker left out. */
  private static List<String> filtered(Bench bench, String stream, boolean unfiltered, int n)
      throws Exception {
    return Bench.read(bench.consumer(stream, OffsetSpecification.first()).filter()
        .values("north").matchUnfiltered(unfiltered).postFilter(message -> true).builder(), n);
  }
}
