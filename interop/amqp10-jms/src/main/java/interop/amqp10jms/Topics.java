package interop.amqp10jms;

import static interop.amqp10jms.Bench.body;
import static interop.amqp10jms.Bench.none;
import static interop.amqp10jms.Bench.refused;
import static interop.amqp10jms.Bench.send;
import static interop.amqp10jms.Bench.take;
import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;

import interop.harness.Suite;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;

/** Topics: who gets what is published to them, selectors, transactions, temporary topics. */
final class Topics {
  private static final int MANY = 200;

  private Topics() {}

  static void register(Suite suite) {
    suite.add("topic-publish", body(Topics::publish));
    suite.add("topic-two-subscribers", body(Topics::twoSubscribers));
    suite.add("topic-without-subscribers", body(Topics::withoutSubscribers));
    suite.add("topic-selector", body(Topics::selector));
    suite.add("topic-selector-properties", body(Topics::properties));
    suite.add("topic-selector-queue", body(Topics::selectorOfQueue));
    suite.add("queue-browser", body(Topics::browser));
    suite.add("topic-no-local", body(Topics::noLocal));
    suite.add("topic-transacted", body(Topics::transacted));
    suite.add("topic-anonymous", body(Topics::anonymous));
    suite.add("topic-many", body(Topics::many));
    suite.add("topic-temporary", body(Topics::temporary));
    suite.add("topic-temporary-gone", body(Topics::temporaryGone));
    suite.add("message-without-body", body(Topics::withoutBody));
  }

  private static void publish(Bench bench) throws Exception {
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("news"));
    Topic other = session.createTopic(bench.name("other"));
    MessageConsumer consumer = bench.session().createConsumer(topic);
    send(session, other, "elsewhere");
    send(session, topic, "a", "b", "c");
    Message first = consumer.receive(Bench.WAIT_MILLIS);
    equal("a", first.getBody(String.class), "the first message");
    equal(topic, first.getJMSDestination(), "its destination");
    equal(List.of("b", "c"), take(consumer, 2), "messages");
    consumer.close();
    send(session, topic, "to nobody");
    none(bench.session().createConsumer(topic));
  }

  private static void twoSubscribers(Bench bench) throws Exception {
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("news"));
    MessageConsumer one = session.createConsumer(topic);
    MessageConsumer other = bench.session().createConsumer(topic);
    send(bench.session(), topic, "a", "b");
    equal(List.of("a", "b"), take(one, 2), "messages of the one");
    equal(List.of("a", "b"), take(other, 2), "messages of the other");
  }

  private static void withoutSubscribers(Bench bench) throws Exception {
    Session session = bench.session();
    send(session, session.createTopic(bench.name("nobody")), Bench.numbers(50));
    MessageProducer producer = session.createProducer(session.createTopic(bench.name("nobody")));
    producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
    producer.send(session.createTextMessage("not persistent"));
  }

  private static void selector(Bench bench) throws Exception {
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("goods"));
    MessageConsumer heavy = bench.session().createConsumer(topic,
        "weight > 2500 AND (colour IN ('red', 'blue') OR colour LIKE 'gr%n')");
    MessageConsumer light = bench.session().createConsumer(topic, "weight <= 2500");
    MessageConsumer all = bench.session().createConsumer(topic);
    MessageProducer producer = session.createProducer(topic);
    List<String> expected = new ArrayList<>();
    for (String colour : List.of("red", "green", "white")) {
      for (int weight : new int[] {1, 3000}) {
        Message message = session.createTextMessage(colour + weight);
        message.setStringProperty("colour", colour);
        message.setIntProperty("weight", weight);
        producer.send(message);
        expected.add(colour + weight);
      }
    }
    equal(List.of("red3000", "green3000"), take(heavy, 2), "heavy ones");
    equal(List.of("red1", "green1", "white1"), take(light, 3), "light ones");
    equal(expected, take(all, expected.size()), "all");
    none(heavy);
    none(light);
  }

  private static void properties(Bench bench) throws Exception {
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("orders"));
    MessageConsumer typed = bench.session().createConsumer(topic, "JMSType = 'order'");
    MessageConsumer usual = bench.session().createConsumer(topic, "JMSPriority = 4");
    MessageConsumer urgent = bench.session().createConsumer(topic, "JMSPriority > 4");
    MessageConsumer kept = bench.session().createConsumer(topic, "JMSDeliveryMode = 'PERSISTENT'");
    MessageConsumer answer = bench.session().createConsumer(topic, "JMSCorrelationID = 'c-1'");
    MessageConsumer group = bench.session().createConsumer(topic, "JMSXGroupID = 'g' AND flag");
    MessageProducer producer = session.createProducer(topic);
    Message order = session.createTextMessage("order");
    order.setJMSType("order");
    order.setStringProperty("JMSXGroupID", "g");
    order.setBooleanProperty("flag", true);
    producer.send(order, DeliveryMode.NON_PERSISTENT, Message.DEFAULT_PRIORITY, 0);
    Message other = session.createTextMessage("other");
    other.setJMSCorrelationID("c-1");
    producer.send(other, DeliveryMode.PERSISTENT, 8, 0);
    for (MessageConsumer consumer : List.of(typed, usual, group)) {
      equal(List.of("order"), take(consumer, 1), "the order");
      none(consumer);
    }
    for (MessageConsumer consumer : List.of(urgent, kept, answer)) {
      equal(List.of("other"), take(consumer, 1), "the other");
      none(consumer);
    }
  }

  /** Selectors are for topics: a queue's consumer gets all. */
  private static void selectorOfQueue(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session, "classic");
    MessageConsumer consumer = session.createConsumer(queue, "colour = 'red'");
    send(session, queue, "without a colour");
    equal(List.of("without a colour"), take(consumer, 1), "the message");
  }

  private static void browser(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session, "classic");
    send(session, queue, "a");
    refused("not browsed", () -> session.createBrowser(queue).getEnumeration().hasMoreElements());
    bench.ready(queue, 1);
  }

  private static void noLocal(Bench bench) throws Exception {
    Connection connection = bench.connection();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    Topic topic = session.createTopic(bench.name("chat"));
    MessageConsumer others = session.createConsumer(topic, null, true);
    MessageConsumer selected = session.createConsumer(topic, "JMSPriority < 9", true);
    MessageConsumer all = session.createConsumer(topic);
    Session foreign = bench.session();
    // The route of either is remembered.
    for (int i = 0; i < 3; i++) {
      send(session, topic, "own" + i);
      send(foreign, topic, "foreign" + i);
    }
    List<String> expected = List.of("foreign0", "foreign1", "foreign2");
    equal(expected, take(others, 3), "messages of others");
    equal(expected, take(selected, 3), "selected messages of others");
    equal("own0", take(all, 6).get(0), "the first of all");
    none(others);
  }

  private static void transacted(Bench bench) throws Exception {
    Session tx = bench.transacted();
    Topic topic = tx.createTopic(bench.name("tx"));
    send(tx, topic, "to nobody");
    tx.commit();
    MessageConsumer consumer = bench.session().createConsumer(topic);
    send(tx, topic, "rolled back");
    tx.rollback();
    send(tx, topic, "a", "b");
    Queue queue = bench.queue(tx, "quorum");
    send(tx, queue, "c");
    none(consumer);
    tx.commit();
    equal(List.of("a", "b"), take(consumer, 2), "messages");
    bench.ready(queue, 1);
    MessageProducer anywhere = tx.createProducer(null);
    anywhere.send(tx.createTopic(bench.name("nobody")), tx.createTextMessage("to nobody"));
    anywhere.send(topic, tx.createTextMessage("d"));
    tx.commit();
    equal(List.of("d"), take(consumer, 1), "a message");
  }

  private static void anonymous(Bench bench) throws Exception {
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("news"));
    Queue queue = bench.queue(session, "classic");
    MessageProducer producer = session.createProducer(null);
    for (int i = 0; i < 20; i++) {
      producer.send(session.createTopic(bench.name("nobody")), session.createTextMessage("lost"));
    }
    MessageConsumer consumer = bench.session().createConsumer(topic);
    producer.send(topic, session.createTextMessage("a"));
    producer.send(queue, session.createTextMessage("b"));
    equal(List.of("a"), take(consumer, 1), "the topic's message");
    bench.ready(queue, 1);
    Queue missing = session.createQueue("/queues/" + bench.name("missing"));
    refused("", () -> producer.send(missing, session.createTextMessage("c")));
  }

  private static void many(Bench bench) throws Exception {
    Session session = bench.session();
    Session subscribers = bench.session();
    List<MessageConsumer> consumers = new ArrayList<>();
    for (int i = 0; i < MANY; i++) {
      consumers.add(subscribers.createConsumer(session.createTopic(bench.name("t" + i))));
    }
    MessageProducer producer = session.createProducer(null);
    for (int i = 0; i < MANY; i++) {
      producer.send(session.createTopic(bench.name("t" + i)), session.createTextMessage("m" + i));
    }
    for (int i = 0; i < MANY; i++) {
      equal(List.of("m" + i), take(consumers.get(i), 1), "the topic's message");
    }
  }

  private static void temporary(Bench bench) throws Exception {
    Session session = bench.session();
    TemporaryTopic replies = session.createTemporaryTopic();
    MessageConsumer consumer = session.createConsumer(replies);
    Queue requests = bench.queue(session, "classic");
    Message request = session.createTextMessage("ping");
    request.setJMSReplyTo(replies);
    session.createProducer(requests).send(request);
    Session server = bench.session();
    Message received = server.createConsumer(requests).receive(Bench.WAIT_MILLIS);
    that(received.getJMSReplyTo() instanceof TemporaryTopic, "a temporary topic");
    send(server, received.getJMSReplyTo(), "pong");
    equal(List.of("pong"), take(consumer, 1), "the reply");
    server.createProducer(null).send(received.getJMSReplyTo(), server.createTextMessage("again"));
    equal(List.of("again"), take(consumer, 1), "the second reply");
  }

  private static void temporaryGone(Bench bench) throws Exception {
    Connection connection = bench.connection();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    TemporaryTopic topic = session.createTemporaryTopic();
    TemporaryTopic left = session.createTemporaryTopic();
    session.createConsumer(topic).close();
    session.createConsumer(left);
    topic.delete();
    Session other = bench.session();
    Topic gone = other.createTopic(topic.getTopicName());
    // To others a topic is a name.
    send(other, gone, "to nobody");
    connection.close();
    for (TemporaryTopic it : List.of(topic, left)) {
      try {
        other.createProducer(it);
        that(false, "a topic that is gone has no producers");
      } catch (InvalidDestinationException refused) {
        that(refused.getMessage().contains("no temporary topic"), refused.getMessage());
      }
    }
  }

  private static void withoutBody(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session, "quorum");
    Topic topic = session.createTopic(bench.name("events"));
    MessageConsumer consumer = session.createConsumer(topic, "n = 5");
    for (var destination : List.of(queue, topic)) {
      Message message = session.createMessage();
      message.setIntProperty("n", 5);
      session.createProducer(destination).send(message);
    }
    for (MessageConsumer it : List.of(consumer, session.createConsumer(queue))) {
      Message message = it.receive(Bench.WAIT_MILLIS);
      that(message != null, "the message came");
      equal(5, message.getIntProperty("n"), "its property");
      equal(null, message.getBody(Object.class), "its body");
    }
  }
}
