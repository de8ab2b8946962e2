package interop.spring;

import interop.harness.Expect;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What a listener was given, kept until the scenario asks for it. */
final class Received<T> {
  private final LinkedBlockingQueue<T> items = new LinkedBlockingQueue<>();

  void add(T item) {
    items.add(item);
  }

  /** The next one; fails when none comes in time. */
  T take() throws InterruptedException {
    return take(1).get(0);
  }

  List<T> take(int n) throws InterruptedException {
    List<T> taken = new ArrayList<>(n);
    while (taken.size() < n) {
      T next = items.poll(Expect.WAIT_SECONDS, TimeUnit.SECONDS);
      Expect.that(next != null, taken.size() + " of " + n + " messages after " + Expect.WAIT_SECONDS + " s");
      taken.add(next);
    }
    return taken;
  }

  /** Nothing was given beyond what has been taken. */
  void nothingMore() {
    Expect.that(items.isEmpty(), "also given: " + items);
  }
}
