package interop.amqp10jms;

import interop.harness.Suite;

/** Runs the scenarios of interop/amqp10-jms/README.md with org.apache.qpid:qpid-jms-client. */
public final class Main {
  private Main() {}

  public static void main(String[] wanted) throws Exception {
    // In its own process, to be killed.
    if (wanted.length == 3 && wanted[0].equals("victim")) {
      Transactions.victim(wanted[1], wanted[2]);
    }
    Suite suite = new Suite("amqp10-jms");
    Queues.register(suite);
    Transactions.register(suite);
    Topics.register(suite);
    Subscriptions.register(suite);
    System.exit(suite.run(wanted));
  }
}
