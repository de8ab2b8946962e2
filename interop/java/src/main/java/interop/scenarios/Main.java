package interop.scenarios;

import interop.harness.Suite;
import interop.harness.Tls;

/** Runs the scenario lists of interop/ with com.rabbitmq:amqp-client. */
public final class Main {
  private Main() {}

  public static void main(String[] wanted) throws Exception {
    if (Tls.wanted()) {
      System.exit(Tls.suite("java", OverTls::run).run(wanted));
    }
    Suite suite = new Suite("java");
    Exchanges.register(suite);
    Publishing.register(suite);
    Consuming.register(suite);
    Queues.register(suite);
    Connections.register(suite);
    Restarts.register(suite);
    Wire.register(suite);
    ExchangeTypes.register(suite);
    RuleExpiry.register(suite);
    RuleLengths.register(suite);
    RuleDeadLetters.register(suite);
    RuleConsumers.register(suite);
    RulePolicies.register(suite);
    ConfirmOn.register(suite);
    SendAgain.register(suite);
    System.exit(suite.run(wanted));
  }
}
