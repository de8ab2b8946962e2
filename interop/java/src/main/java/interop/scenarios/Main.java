package interop.scenarios;

import interop.harness.Suite;

/** Runs the scenario list of interop/SCENARIOS.md with com.rabbitmq:amqp-client. */
public final class Main {
  private Main() {}

  public static void main(String[] wanted) throws Exception {
    Suite suite = new Suite("java");
    Exchanges.register(suite);
    Publishing.register(suite);
    Consuming.register(suite);
    Queues.register(suite);
    Connections.register(suite);
    Restarts.register(suite);
    Wire.register(suite);
    System.exit(suite.run(wanted));
  }
}
