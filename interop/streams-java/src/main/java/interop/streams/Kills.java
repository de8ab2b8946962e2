package interop.streams;

import static interop.harness.Expect.eventually;
import static interop.streams.Bench.body;
import static interop.streams.Bench.bytes;

import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.StreamException;
import interop.harness.Skip;
import interop.harness.Suite;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** The node is killed under a publisher and a consumer, which connect again by themselves. */
final class Kills {
  private static final int CONFIRMED_BETWEEN_KILLS = 5_000;

  private Kills() {}

  static void register(Suite suite) {
    suite.add("restart-stream-kill-9", 60, body(Kills::kill));
  }

  private static void kill(Bench bench) throws Exception {
    if (!bench.node.restartable()) {
      throw new Skip("restarts need a node of our own");
    }
    String stream = bench.stream();
    Set<String> confirmed = ConcurrentHashMap.newKeySet();
    Set<String> seen = ConcurrentHashMap.newKeySet();
    AtomicBoolean done = new AtomicBoolean();
    try (Consumer consumer = bench.consumer(stream, OffsetSpecification.first())
        .messageHandler((context, message) -> seen.add(Bench.text(message))).build();
        Producer producer = bench.producer(stream)) {
      Thread publisher = new Thread(() -> publishUntil(producer, done, confirmed), "publisher");
      publisher.setDaemon(true);
      publisher.start();
      for (int round = 0; round < 2; round++) {
        int before = confirmed.size();
        eventually(true, "confirms in round " + round,
            () -> confirmed.size() >= before + CONFIRMED_BETWEEN_KILLS);
        bench.node.kill9();
        bench.node.start();
      }
      int before = confirmed.size();
      eventually(true, "confirms after the last kill",
          () -> confirmed.size() >= before + CONFIRMED_BETWEEN_KILLS);
      done.set(true);
      publisher.join();
      eventually(true, "everything confirmed is seen", () -> seen.containsAll(confirmed));
    }
    // What was confirmed too late for the publisher to hear of it is there twice.
    Set<String> again = ConcurrentHashMap.newKeySet();
    try (Consumer reader = bench.consumer(stream, OffsetSpecification.first())
        .messageHandler((context, message) -> again.add(Bench.text(message))).build()) {
      eventually(true, "everything confirmed is in the stream",
          () -> again.containsAll(confirmed));
    }
  }

  private static void publishUntil(Producer producer, AtomicBoolean done, Set<String> confirmed) {
    AtomicInteger next = new AtomicInteger();
    while (!done.get()) {
      String text = Integer.toString(next.getAndIncrement());
      try {
        producer.send(producer.messageBuilder().addData(bytes(text)).build(), status -> {
          if (status.isConfirmed()) {
            confirmed.add(text);
          }
        });
      } catch (StreamException notYet) {
        // It connects again.
        Thread.onSpinWait();
      }
    }
  }
}
