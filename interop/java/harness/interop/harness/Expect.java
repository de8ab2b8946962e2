package interop.harness;

import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Assertions, with the waiting that a broker on the other side of a socket needs. */
public class Expect {
  public static final long WAIT_SECONDS = 10;

  private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  protected Expect() {}

  public static void that(boolean holds, String otherwise) {
    if (!holds) {
      throw new AssertionError(otherwise);
    }
  }

  public static void equal(Object expected, Object actual, String what) {
    that(Objects.equals(expected, actual), what + ": expected " + expected + ", got " + actual);
  }

  public static void startsWith(String prefix, String actual, String what) {
    that(actual != null && actual.startsWith(prefix),
        what + ": expected " + prefix + "..., got " + actual);
  }

  /** Asks again until the answer is the expected one or the deadline has passed. */
  public static void eventually(Object expected, String what, Callable<?> question)
      throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
    Object answer = question.call();
    while (!Objects.equals(expected, answer) && System.nanoTime() < deadline) {
      LockSupport.parkNanos(POLL_NANOS);
      answer = question.call();
    }
    equal(expected, answer, what);
  }
}
