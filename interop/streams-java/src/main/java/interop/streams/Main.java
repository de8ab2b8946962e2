package interop.streams;

import interop.harness.Suite;
import interop.harness.Tls;

/** Runs the scenarios of interop/STREAMS.md with com.rabbitmq:stream-client. */
public final class Main {
  private Main() {}

  public static void main(String[] wanted) throws Exception {
    if (Tls.wanted()) {
      System.exit(Tls.suite("streams-java", OverTls::run).run(wanted));
    }
    Suite suite = new Suite("streams-java");
    Streams.register(suite);
    Offsets.register(suite);
    SuperStreams.register(suite);
    Groups.register(suite);
    Crossing.register(suite);
    Tutorials.register(suite);
    ThrownOut.register(suite);
    Kills.register(suite);
    System.exit(suite.run(wanted));
  }
}
