package interop.amqp10jms;

import static interop.amqp10jms.Bench.body;
import static interop.amqp10jms.Bench.none;
import static interop.amqp10jms.Bench.send;
import static interop.amqp10jms.Bench.take;
import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;

import interop.harness.Suite;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.List;

/** Transacted sessions. */
final class Transactions {
  private Transactions() {}

  static void register(Suite suite) {
    for (String type : List.of("classic", "quorum")) {
      suite.add("transaction-send-" + type, body(bench -> sends(bench, type)));
      suite.add("transaction-consume-" + type, body(bench -> consumes(bench, type)));
      suite.add("transaction-kill-" + type, body(bench -> killed(bench, type)));
    }
    suite.add("transaction-both-ways", body(Transactions::bothWays));
    suite.add("transaction-many", body(Transactions::many));
    suite.add("transaction-two-sessions", body(Transactions::twoSessions));
    suite.add("transaction-consumer-closed", body(Transactions::consumerClosed));
    suite.add("transaction-queue-deleted", body(Transactions::queueDeleted));
  }

  private static void sends(Bench bench, String type) throws Exception {
    Session tx = bench.transacted();
    Queue queue = bench.queue(tx, type);
    send(tx, queue, "rolled back");
    tx.rollback();
    send(tx, queue, "a", "b", "c");
    bench.ready(queue, 0);
    tx.commit();
    bench.ready(queue, 3);
    send(tx, queue, "lost with its session");
    tx.close();
    equal(List.of("a", "b", "c"), take(bench.session().createConsumer(queue), 3), "messages");
    bench.ready(queue, 0);
  }

  private static void consumes(Bench bench, String type) throws Exception {
    Session tx = bench.transacted();
    Queue queue = bench.queue(tx, type);
    send(bench.session(), queue, "a", "b", "c");
    MessageConsumer consumer = tx.createConsumer(queue);
    equal(List.of("a", "b"), take(consumer, 2), "messages");
    tx.rollback();
    Message again = consumer.receive(Bench.WAIT_MILLIS);
    equal("a", again.getBody(String.class), "the first message again");
    equal(true, again.getJMSRedelivered(), "redelivered");
    equal(2, again.getIntProperty("JMSXDeliveryCount"), "deliveries");
    equal(List.of("b", "c"), take(consumer, 2), "messages after the rollback");
    tx.commit();
    none(consumer);
    tx.close();
    bench.ready(queue, 0);
  }

  private static void bothWays(Bench bench) throws Exception {
    Session tx = bench.transacted();
    Queue in = bench.queue(tx, "classic");
    Queue out = bench.queue(tx, "quorum");
    send(bench.session(), in, "1", "2");
    MessageConsumer consumer = tx.createConsumer(in);
    for (boolean commits : new boolean[] {false, true}) {
      for (String text : take(consumer, 2)) {
        send(tx, out, text + "!");
      }
      if (commits) {
        tx.commit();
      } else {
        tx.rollback();
      }
    }
    equal(List.of("1!", "2!"), take(bench.session().createConsumer(out), 2), "answers");
    bench.ready(out, 0);
    bench.ready(in, 0);
  }

  private static void many(Bench bench) throws Exception {
    Session tx = bench.transacted();
    Queue queue = bench.queue(tx, "classic");
    MessageConsumer consumer = bench.session().createConsumer(queue);
    for (int i = 0; i < 100; i++) {
      send(tx, queue, "x" + i, "y" + i);
      if (i % 2 == 0) {
        tx.commit();
        equal(List.of("x" + i, "y" + i), take(consumer, 2), "messages");
      } else {
        tx.rollback();
      }
    }
    send(tx, queue, Bench.numbers(1000));
    tx.commit();
    equal(List.of(Bench.numbers(1000)), take(consumer, 1000), "a large transaction");
  }

  private static void twoSessions(Bench bench) throws Exception {
    Connection connection = bench.connection();
    Session one = connection.createSession(true, Session.SESSION_TRANSACTED);
    Session other = connection.createSession(true, Session.SESSION_TRANSACTED);
    Queue queue = bench.queue(one, "classic");
    send(one, queue, "one");
    send(other, queue, "other");
    one.rollback();
    other.commit();
    equal(List.of("other"), take(bench.session().createConsumer(queue), 1), "messages");
    bench.ready(queue, 0);
  }

  private static void consumerClosed(Bench bench) throws Exception {
    Session tx = bench.transacted();
    Queue queue = bench.queue(tx, "classic");
    send(bench.session(), queue, "a", "b");
    MessageConsumer consumer = tx.createConsumer(queue);
    take(consumer, 1);
    consumer.close();
    tx.commit();
    equal(List.of("b"), take(bench.session().createConsumer(queue), 1), "what is left");
  }

  private static void queueDeleted(Bench bench) throws Exception {
    Session tx = bench.transacted();
    Queue queue = bench.queue(tx, "classic");
    send(tx, queue, "nowhere");
    bench.delete("classic");
    try {
      tx.commit();
      that(false, "the commit of what no queue takes has failed");
    } catch (JMSException refused) {
      that(refused.getMessage().contains("no queue"), refused.getMessage());
    }
    bench.queue(tx, "classic");
    send(tx, queue, "next");
    tx.commit();
    bench.ready(queue, 1);
  }

  private static void killed(Bench bench, String type) throws Exception {
    Queue queue = bench.queue(bench.session(), type);
    send(bench.session(), queue, "a", "b");
    Process victim = new ProcessBuilder(
        ProcessHandle.current().info().command().orElse("java"), "-cp",
        System.getProperty("java.class.path"), Main.class.getName(), "victim", bench.authority(),
        queue.getQueueName()).redirectErrorStream(true).start();
    equal('!', (char) victim.getInputStream().read(), "the victim is amid its transaction");
    bench.ready(queue, 0);
    victim.destroyForcibly().waitFor();
    equal(List.of("a", "b"), take(bench.session().createConsumer(queue), 2), "messages");
    bench.ready(queue, 0);
  }

  /** Consumes and sends in a transaction, and waits for its end. */
  static void victim(String authority, String queue) throws Exception {
    Connection connection = Bench.factory(authority).createConnection();
    connection.start();
    Session tx = connection.createSession(true, Session.SESSION_TRANSACTED);
    take(tx.createConsumer(tx.createQueue(queue)), 2);
    send(tx, tx.createQueue(queue), "never");
    System.out.print("!");
    System.out.flush();
    Thread.currentThread().join();
  }
}
