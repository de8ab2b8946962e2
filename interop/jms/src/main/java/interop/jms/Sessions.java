package interop.jms;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;
import static interop.jms.Bench.WAIT_MILLIS;
import static interop.jms.Bench.body;
import static interop.jms.Bench.numbers;
import static interop.jms.Bench.send;
import static interop.jms.Bench.take;
import static interop.jms.Bench.takeTexts;
import static interop.jms.Bench.text;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import com.rabbitmq.jms.client.RMQSession;
import interop.harness.Suite;
import jakarta.jms.CompletionListener;
import jakarta.jms.JMSContext;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Transactions and acknowledgements. */
final class Sessions {
  private Sessions() {}

  static void register(Suite suite) {
    suite.add("session-transacted", body(Sessions::transacted));
    suite.add("session-nack-on-rollback", body(Sessions::nackOnRollback));
    suite.add("session-client-acknowledge", body(Sessions::clientAcknowledge));
    suite.add("session-individual-acknowledge", body(Sessions::individualAcknowledge));
    suite.add("session-dups-ok", body(Sessions::dupsOk));
    suite.add("session-recover", body(Sessions::recover));
    suite.add("session-listener-throws", body(Sessions::listenerThrows));
    suite.add("session-delivery-count", body(Sessions::deliveryCount));
    suite.add("session-context", body(Sessions::context));
    suite.add("session-asynchronous-send", body(Sessions::asynchronousSend));
  }

  private static void transacted(Bench bench) throws Exception {
    Session tx = bench.connection().createSession(true, Session.SESSION_TRANSACTED);
    Queue queue = bench.queue(tx);
    send(tx, queue, "rolled back");
    tx.rollback();
    send(tx, queue, "a", "b", "c");
    bench.ready(queue, 0);
    tx.commit();
    bench.ready(queue, 3);
    MessageConsumer consumer = tx.createConsumer(queue);
    equal(List.of("a", "b"), takeTexts(consumer, 2), "messages");
    tx.rollback();
    List<Message> again = take(consumer, 3);
    equal(List.of("a", "b", "c"), Bench.texts(again), "messages after a rollback");
    equal(true, again.get(0).getJMSRedelivered(), "redelivered");
    equal(false, again.get(2).getJMSRedelivered(), "the third is redelivered");
    send(tx, queue, "d");
    tx.commit();
    equal(List.of("d"), takeTexts(consumer, 1), "messages after the commit");
    tx.close();
    bench.ready(queue, 1);
  }

  /** What is rolled back is dead then. */
  private static void nackOnRollback(Bench bench) throws Exception {
    RMQConnectionFactory factory = bench.factory();
    factory.setNackOnRollback(true);
    Session tx = bench.connection(factory).createSession(true, Session.SESSION_TRANSACTED);
    Queue dead = tx.createQueue(bench.name("dead"));
    RMQDestination queue = new RMQDestination(bench.name("q"), true, false, Map.of(
        "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead.getQueueName()));
    send(tx, queue, "a", "b");
    tx.commit();
    MessageConsumer consumer = tx.createConsumer(queue);
    take(consumer, 1);
    tx.rollback();
    equal(List.of("b"), takeTexts(consumer, 1), "messages after the rollback");
    tx.commit();
    equal(List.of("a"), takeTexts(bench.session().createConsumer(dead), 1), "dead messages");
  }

  private static void clientAcknowledge(Bench bench) throws Exception {
    Session session = bench.connection().createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = bench.queue(session);
    send(session, queue, numbers(4));
    List<Message> taken = take(session.createConsumer(queue), 3);
    // All that came before are acknowledged too.
    taken.get(1).acknowledge();
    session.close();
    bench.ready(queue, 2);
    List<Message> rest = take(bench.session().createConsumer(queue), 2);
    equal(List.of("2", "3"), Bench.texts(rest), "messages not acknowledged");
    equal(true, rest.get(0).getJMSRedelivered(), "redelivered");
    equal(false, rest.get(1).getJMSRedelivered(), "what nobody has had is redelivered");
  }

  private static void individualAcknowledge(Bench bench) throws Exception {
    Session session =
        bench.connection().createSession(false, RMQSession.CLIENT_INDIVIDUAL_ACKNOWLEDGE);
    Queue queue = bench.queue(session);
    send(session, queue, numbers(3));
    take(session.createConsumer(queue), 3).get(1).acknowledge();
    session.close();
    bench.ready(queue, 2);
    equal(List.of("0", "2"), takeTexts(bench.session().createConsumer(queue), 2), "messages");
  }

  private static void dupsOk(Bench bench) throws Exception {
    Session session = bench.connection().createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
    Queue queue = bench.queue(session);
    send(session, queue, numbers(50));
    equal(List.of(numbers(50)), takeTexts(session.createConsumer(queue), 50), "messages");
    session.close();
    bench.ready(queue, 0);
  }

  private static void recover(Bench bench) throws Exception {
    Session session = bench.connection().createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = bench.queue(session);
    send(session, queue, numbers(3));
    MessageConsumer consumer = session.createConsumer(queue);
    take(consumer, 2);
    session.recover();
    List<Message> again = take(consumer, 3);
    equal(List.of(numbers(3)), Bench.texts(again), "messages");
    equal(true, again.get(1).getJMSRedelivered(), "redelivered");
    again.get(2).acknowledge();
    session.close();
    bench.ready(queue, 0);
  }

  /** A listener that fails ends, and what it failed at is the next one's. */
  private static void listenerThrows(Bench bench) throws Exception {
    RMQConnectionFactory factory = bench.factory();
    factory.setRequeueOnMessageListenerException(true);
    Session session = bench.connection(factory).createSession(false, Session.AUTO_ACKNOWLEDGE);
    Queue queue = bench.queue(session);
    session.createConsumer(queue).setMessageListener(message -> {
      throw new IllegalStateException("not me");
    });
    send(bench.session(), queue, "hare");
    BlockingQueue<Message> inbox = new LinkedBlockingQueue<>();
    bench.session().createConsumer(queue).setMessageListener(inbox::add);
    equal("hare", text(inbox.poll(WAIT_MILLIS, TimeUnit.MILLISECONDS)), "message");
  }

  private static void deliveryCount(Bench bench) throws Exception {
    Session session = bench.connection().createSession(false, Session.CLIENT_ACKNOWLEDGE);
    RMQDestination queue =
        new RMQDestination(bench.name("q"), true, false, Map.of("x-queue-type", "quorum"));
    send(session, queue, "hare");
    MessageConsumer consumer = session.createConsumer(queue);
    for (int count = 1; count <= 3; count++) {
      Message message = take(consumer, 1).get(0);
      equal(count, message.getIntProperty("JMSXDeliveryCount"), "delivery count");
      equal(count > 1, message.getJMSRedelivered(), "redelivered");
      session.recover();
    }
  }

  private static void context(Bench bench) throws Exception {
    try (JMSContext context = bench.factory().createContext(JMSContext.SESSION_TRANSACTED)) {
      Queue queue = context.createQueue(bench.name("q"));
      context.createProducer().setPriority(2).setProperty("ears", 2).setJMSType("kind")
          .send(queue, "hare").send(queue, Map.of("ears", 2)).send(queue, new byte[] {1});
      context.commit();
      bench.ready(queue, 3);
      try (jakarta.jms.JMSConsumer consumer = context.createConsumer(queue)) {
        Message message = consumer.receive(WAIT_MILLIS);
        equal("hare", message.getBody(String.class), "text");
        equal(2, message.getIntProperty("ears"), "property");
        equal(2, message.getJMSPriority(), "priority");
        equal(Map.of("ears", 2), consumer.receiveBody(Map.class, WAIT_MILLIS), "map");
        equal(1, consumer.receiveBody(byte[].class, WAIT_MILLIS).length, "bytes");
        context.rollback();
        equal("hare", consumer.receiveBody(String.class, WAIT_MILLIS), "after a rollback");
      }
    }
  }

  /** Listeners of sends are told by the broker's confirms. */
  private static void asynchronousSend(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session);
    CountDownLatch left = new CountDownLatch(500);
    BlockingQueue<Exception> failures = new LinkedBlockingQueue<>();
    CompletionListener listener = new CompletionListener() {
      @Override
      public void onCompletion(Message message) {
        left.countDown();
      }

      @Override
      public void onException(Message message, Exception failure) {
        failures.add(failure);
      }
    };
    try (MessageProducer producer = session.createProducer(queue)) {
      for (String text : numbers(500)) {
        producer.send(session.createTextMessage(text), listener);
      }
      that(left.await(WAIT_MILLIS, TimeUnit.MILLISECONDS),
          left.getCount() + " are not confirmed, " + failures);
    }
    equal(List.of(numbers(500)), takeTexts(session.createConsumer(queue), 500), "messages");
  }
}
