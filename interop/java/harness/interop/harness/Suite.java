package interop.harness;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A named list of scenarios; runs them one after the other and prints one line for each. */
public final class Suite {
  /** One scenario: returns normally when it holds. */
  public interface Body {
    void run(Node node, String id) throws Exception;
  }

  private record Entry(Body body, long seconds) {}

  private static final long DEFAULT_SECONDS = 40;

  private final Map<String, Entry> scenarios = new LinkedHashMap<>();
  private final String name;
  private volatile String note = "";
  private Body end = (node, id) -> {};
  private int passed;
  private int failed;
  private int skipped;

  /** {@code name} is the word that follows PASS, FAIL or SKIP on every line. */
  public Suite(String name) {
    this.name = name;
  }

  public void add(String id, Body body) {
    add(id, DEFAULT_SECONDS, body);
  }

  /** Adds a scenario that counts as failed when it takes longer than {@code seconds}. */
  public void add(String id, long seconds, Body body) {
    if (scenarios.put(id, new Entry(body, seconds)) != null) {
      throw new IllegalArgumentException("scenario " + id + " twice");
    }
  }

  /** Adds a remark, such as a figure, to the line of the scenario that runs at the moment. */
  public void note(String text) {
    note = ", " + text;
  }

  /** What is done after the last scenario, while the node is still there; its failure counts. */
  public void atEnd(Body body) {
    end = body;
  }

  /** Runs the scenarios named in {@code wanted}, or all; returns the exit code. */
  public int run(String[] wanted) throws Exception {
    List<String> ids = wanted.length == 0 ? List.copyOf(scenarios.keySet()) : Arrays.asList(wanted);
    Set<String> unknown = new TreeSet<>(ids);
    unknown.removeAll(scenarios.keySet());
    if (!unknown.isEmpty()) {
      System.err.println("unknown scenarios: " + unknown);
      return 2;
    }
    try (Node node = Node.open()) {
      for (String id : ids) {
        runOne(node, id, scenarios.get(id));
      }
      end.run(node, "end");
    }
    System.out.printf("%d passed, %d failed, %d skipped%n", passed, failed, skipped);
    return failed == 0 ? 0 : 1;
  }

  private void runOne(Node node, String id, Entry entry) throws Exception {
    FutureTask<Void> task = new FutureTask<>(() -> {
      entry.body.run(node, id);
      return null;
    });
    Thread thread = new Thread(task, "scenario-" + id);
    thread.setDaemon(true);
    long begin = System.nanoTime();
    note = "";
    thread.start();
    try {
      task.get(entry.seconds, TimeUnit.SECONDS);
      long millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
      passed++;
      System.out.printf("PASS %s %s (%d ms%s)%n", name, id, millis, note);
    } catch (TimeoutException late) {
      fail(id, "no end after " + entry.seconds + " s at " + firstOwnFrame(thread.getStackTrace()));
      thread.interrupt();
    } catch (ExecutionException error) {
      judge(id, error.getCause());
    }
    if (!node.running()) {
      System.out.println("# the node died in " + id + "; its last lines:\n" + node.tail().indent(2));
      node.start();
    }
  }

  private void judge(String id, Throwable cause) {
    if (cause instanceof Skip) {
      skipped++;
      System.out.printf("SKIP %s %s: %s%n", name, id, cause.getMessage());
      return;
    }
    fail(id, cause.toString().lines().findFirst().orElse("") + " at "
        + firstOwnFrame(cause.getStackTrace()));
    if (System.getenv("INTEROP_TRACE") != null) {
      StringWriter trace = new StringWriter();
      cause.printStackTrace(new PrintWriter(trace));
      System.out.println(trace);
    }
  }

  private void fail(String id, String reason) {
    failed++;
    System.out.printf("FAIL %s %s: %s%n", name, id, reason);
  }

  private static String firstOwnFrame(StackTraceElement[] trace) {
    return Arrays.stream(trace)
        .filter(frame -> frame.getClassName().startsWith("interop.")
            && !frame.getClassName().startsWith("interop.harness."))
        .map(frame -> frame.getFileName() + ":" + frame.getLineNumber())
        .findFirst()
        .orElse("?");
  }
}
