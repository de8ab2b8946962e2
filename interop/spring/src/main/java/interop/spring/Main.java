package interop.spring;

import interop.harness.Suite;

/** Runs the scenarios of interop/spring/README.md in one Spring Boot application. */
public final class Main {
  private Main() {}

  public static void main(String[] wanted) throws Exception {
    // The pool that waits for confirms of closed channels meets the node's absence too.
    Thread.setDefaultUncaughtExceptionHandler(
        (thread, error) -> System.err.println("# " + thread.getName() + ": " + error));
    Suite suite = new Suite("spring");
    Topology.register(suite);
    Listeners.register(suite);
    Retries.register(suite);
    Publishing.register(suite);
    Rpc.register(suite);
    Transactions.register(suite);
    Batches.register(suite);
    Recovery.register(suite);
    suite.atEnd((node, id) -> Lab.end());
    System.exit(suite.run(wanted));
  }
}
