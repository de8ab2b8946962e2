package interop.jms;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.eventually;
import static interop.harness.Expect.that;
import static interop.jms.Bench.WAIT_MILLIS;
import static interop.jms.Bench.body;
import static interop.jms.Bench.send;
import static interop.jms.Bench.takeTexts;
import static interop.jms.Bench.text;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import interop.harness.Suite;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueConnection;
import jakarta.jms.QueueRequestor;
import jakarta.jms.QueueSession;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Temporary queues, and what is asked and answered by them. */
final class Replies {
  private static final String DIRECT = "amq.rabbitmq.reply-to";

  private Replies() {}

  static void register(Suite suite) {
    suite.add("temporary-queue", body(Replies::temporary));
    suite.add("request-reply", body(Replies::requestReply));
    suite.add("request-reply-direct", body(Replies::direct));
    suite.add("request-reply-requestor", body(Replies::requestor));
  }

  private static void temporary(Bench bench) throws Exception {
    Connection connection = bench.connection();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    TemporaryQueue queue = session.createTemporaryQueue();
    send(session, queue, "hare");
    String name = queue.getQueueName();
    try (com.rabbitmq.client.Connection other = Bench.amqp(bench.node)) {
      Channel channel = other.createChannel();
      channel.queueDeclarePassive(name);
      throw new AssertionError("another connection may use it");
    } catch (IOException refused) {
      ShutdownSignalException closed = (ShutdownSignalException) refused.getCause();
      that(closed.getMessage().contains("RESOURCE_LOCKED"), closed.getMessage());
    }
    equal(List.of("hare"), takeTexts(session.createConsumer(queue), 1), "messages");
    TemporaryQueue deleted = session.createTemporaryQueue();
    deleted.delete();
    connection.close();
    eventually(false, "the queue is there", () -> bench.exists(name));
  }

  /** Answers each request in the capitals of its text. */
  private static Queue serve(Bench bench) throws Exception {
    RMQConnectionFactory factory = bench.factory();
    // The queue for the answer is there already, and is another connection's.
    factory.setDeclareReplyToDestination(false);
    Session session = bench.connection(factory).createSession(false, Session.AUTO_ACKNOWLEDGE);
    Queue queue = bench.queue(session);
    MessageProducer answers = session.createProducer(null);
    session.createConsumer(queue).setMessageListener(request -> {
      try {
        Message answer = session.createTextMessage(text(request).toUpperCase(Locale.ROOT));
        answer.setJMSCorrelationID(request.getJMSCorrelationID());
        // What reads it by an address of AMQP is told by this what it is.
        answer.setStringProperty("JMSType", "TextMessage");
        answers.send(request.getJMSReplyTo(), answer);
      } catch (JMSException wrong) {
        System.err.println("# " + wrong);
      }
    });
    return queue;
  }

  private static void ask(Session session, Queue service, Destination replies) throws Exception {
    try (MessageProducer producer = session.createProducer(service);
        MessageConsumer consumer = session.createConsumer(replies)) {
      BlockingQueue<Message> inbox = new LinkedBlockingQueue<>();
      consumer.setMessageListener(inbox::add);
      for (int i = 0; i < 20; i++) {
        Message request = session.createTextMessage("hare" + i);
        request.setJMSReplyTo(replies);
        request.setJMSCorrelationID(UUID.randomUUID().toString());
        producer.send(request);
        Message answer = inbox.poll(WAIT_MILLIS, TimeUnit.MILLISECONDS);
        equal("HARE" + i, text(answer), "the answer");
        equal(request.getJMSCorrelationID(), answer.getJMSCorrelationID(), "correlation id");
      }
    }
  }

  private static void requestReply(Bench bench) throws Exception {
    Queue service = serve(bench);
    Session session = bench.session();
    ask(session, service, session.createTemporaryQueue());
  }

  private static void direct(Bench bench) throws Exception {
    Queue service = serve(bench);
    RMQDestination replies = new RMQDestination(DIRECT, "", DIRECT, DIRECT);
    replies.setDeclared(true);
    ask(bench.session(), service, replies);
  }

  private static void requestor(Bench bench) throws Exception {
    Queue service = serve(bench);
    QueueConnection connection = bench.factory().createQueueConnection();
    try {
      connection.start();
      QueueSession session = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
      QueueRequestor requestor = new QueueRequestor(session, service);
      for (int i = 0; i < 5; i++) {
        Message request = session.createTextMessage("hound" + i);
        equal("HOUND" + i, text(requestor.request(request)), "the answer");
      }
      requestor.close();
    } finally {
      connection.close();
    }
  }
}
