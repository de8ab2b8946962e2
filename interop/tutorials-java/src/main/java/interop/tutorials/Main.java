package interop.tutorials;

import interop.harness.Suite;

/** The workflows of RabbitMQ's tutorials one to seven, each with its own programs as methods. */
public final class Main {
  private Main() {}

  public static void main(String[] wanted) throws Exception {
    Suite suite = new Suite("tutorials-java");
    suite.add("tutorial-1-hello-world", Lesson.of(Messaging::helloWorld));
    suite.add("tutorial-2-work-queues", Lesson.of(Messaging::workQueues));
    suite.add("tutorial-3-publish-subscribe", Lesson.of(Routing::publishSubscribe));
    suite.add("tutorial-4-routing", Lesson.of(Routing::routing));
    suite.add("tutorial-5-topics", Lesson.of(Routing::topics));
    suite.add("tutorial-6-rpc", Lesson.of(Messaging::rpc));
    suite.add("tutorial-7-publisher-confirms", Lesson.of(Confirms::publisherConfirms));
    System.exit(suite.run(wanted));
  }
}
