package interop.amqp10jms;

import static interop.amqp10jms.Bench.body;
import static interop.amqp10jms.Bench.none;
import static interop.amqp10jms.Bench.send;
import static interop.amqp10jms.Bench.take;
import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;

import interop.harness.Suite;
import jakarta.jms.BytesMessage;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import java.util.List;

/** Queues, types of messages, acknowledgements, temporary queues. */
final class Queues {
  private Queues() {}

  static void register(Suite suite) {
    suite.add("message-types", body(Queues::messageTypes));
    suite.add("client-acknowledge", body(Queues::clientAcknowledge));
    suite.add("session-recover", body(Queues::recover));
    suite.add("queue-missing", body(Queues::missing));
    suite.add("temporary-queue", body(Queues::temporary));
  }

  private static void messageTypes(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session, "quorum");
    MessageProducer producer = session.createProducer(queue);
    BytesMessage bytes = session.createBytesMessage();
    bytes.writeBytes(new byte[300_000]);
    MapMessage map = session.createMapMessage();
    map.setDouble("d", 1.5);
    map.setString("s", "text");
    StreamMessage stream = session.createStreamMessage();
    stream.writeInt(7);
    for (Message message : List.of(session.createTextMessage("text"), bytes, map, stream,
        session.createObjectMessage("object"))) {
      message.setIntProperty("n", 5);
      message.setJMSCorrelationID("correlation");
      message.setJMSType("type");
      producer.send(message);
    }
    MessageConsumer consumer = session.createConsumer(queue);
    equal(List.of("text"), List.of(next(consumer).getBody(String.class)), "a text");
    equal(300_000L, ((BytesMessage) next(consumer)).getBodyLength(), "bytes");
    equal("text", ((MapMessage) next(consumer)).getString("s"), "a map");
    equal(7, ((StreamMessage) next(consumer)).readInt(), "a stream");
    equal("object", next(consumer).getBody(String.class), "an object");
  }

  private static Message next(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(Bench.WAIT_MILLIS);
    that(message != null, "a message came");
    equal(5, message.getIntProperty("n"), "a property");
    equal("correlation", message.getJMSCorrelationID(), "correlation id");
    equal("type", message.getJMSType(), "type");
    return message;
  }

  private static void clientAcknowledge(Bench bench) throws Exception {
    Session session = bench.connection().createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = bench.queue(session, "classic");
    send(session, queue, "a", "b", "c");
    MessageConsumer consumer = session.createConsumer(queue);
    take(consumer, 1);
    consumer.receive(Bench.WAIT_MILLIS).acknowledge();
    session.close();
    bench.ready(queue, 1);
  }

  private static void recover(Bench bench) throws Exception {
    Session session = bench.connection().createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = bench.queue(session, "classic");
    send(session, queue, "a", "b");
    MessageConsumer consumer = session.createConsumer(queue);
    take(consumer, 2);
    session.recover();
    Message again = consumer.receive(Bench.WAIT_MILLIS);
    equal("a", again.getBody(String.class), "the first message");
    equal(true, again.getJMSRedelivered(), "redelivered");
    equal(List.of("b"), take(consumer, 1), "the second message");
  }

  private static void missing(Bench bench) throws Exception {
    Session session = bench.session();
    try {
      session.createConsumer(session.createQueue("/queues/" + bench.name("missing")));
      that(false, "a queue that is not there has no consumers");
    } catch (JMSException refused) {
      that(refused.getMessage().contains("no queue"), refused.getMessage());
    }
  }

  private static void temporary(Bench bench) throws Exception {
    Session session = bench.session();
    Queue requests = bench.queue(session, "classic");
    TemporaryQueue replies = session.createTemporaryQueue();
    Message request = session.createTextMessage("ping");
    request.setJMSReplyTo(replies);
    session.createProducer(requests).send(request);
    Session server = bench.session();
    Message received = server.createConsumer(requests).receive(Bench.WAIT_MILLIS);
    send(server, received.getJMSReplyTo(), "pong");
    MessageConsumer consumer = session.createConsumer(replies);
    equal(List.of("pong"), take(consumer, 1), "the reply");
    send(session, replies, "again");
    equal(List.of("again"), take(consumer, 1), "a message of its own");
    none(consumer);
    consumer.close();
    replies.delete();
    try {
      server.createProducer(received.getJMSReplyTo());
      that(false, "a queue that is deleted has no producers");
    } catch (JMSException refused) {
      that(refused.getMessage().contains("no queue"), refused.getMessage());
    }
  }
}
