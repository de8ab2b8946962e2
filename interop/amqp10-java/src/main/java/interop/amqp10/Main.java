package interop.amqp10;

import interop.harness.Suite;

/** Runs the scenarios of interop/AMQP10.md with com.rabbitmq.client:amqp-client. */
public final class Main {
  private Main() {}

  public static void main(String[] wanted) throws Exception {
    Suite suite = new Suite("amqp10-java");
    Messages.register(suite);
    Outcomes.register(suite);
    Crossing.register(suite);
    Replies.register(suite);
    Streams.register(suite);
    Administration.register(suite);
    Refusals.register(suite);
    Tutorials.register(suite);
    Kills.register(suite);
    System.exit(suite.run(wanted));
  }
}
