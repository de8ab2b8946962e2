package interop.amqp10jms;

import static interop.amqp10jms.Bench.body;
import static interop.amqp10jms.Bench.none;
import static interop.amqp10jms.Bench.refused;
import static interop.amqp10jms.Bench.send;
import static interop.amqp10jms.Bench.take;
import static interop.harness.Expect.equal;

import interop.harness.Skip;
import interop.harness.Suite;
import jakarta.jms.Connection;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Subscriptions with names: durable, shared, both. */
final class Subscriptions {
  private Subscriptions() {}

  static void register(Suite suite) {
    suite.add("durable-reconnect", body(Subscriptions::reconnect));
    suite.add("durable-kill-9", body(Subscriptions::killed));
    suite.add("durable-in-use", body(Subscriptions::inUse));
    suite.add("durable-other-topic", body(Subscriptions::otherTopic));
    suite.add("durable-no-local", body(Subscriptions::noLocal));
    suite.add("durable-unsubscribe", body(Subscriptions::unsubscribe));
    suite.add("shared", body(Subscriptions::shared));
    suite.add("shared-durable", body(Subscriptions::sharedDurable));
    suite.add("shared-durable-global", body(Subscriptions::global));
    suite.add("shared-mismatch", body(Subscriptions::mismatch));
  }

  private static Session session(Connection connection) throws JMSException {
    return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
  }

  private static void reconnect(Bench bench) throws Exception {
    String client = bench.name("client");
    Session publisher = bench.session();
    Topic topic = publisher.createTopic(bench.name("news"));
    Connection connection = bench.connection(client);
    MessageConsumer consumer = session(connection).createDurableSubscriber(topic, "sub");
    send(publisher, topic, "a");
    equal(List.of("a"), take(consumer, 1), "a message");
    consumer.close();
    send(publisher, topic, "b");
    connection.close();
    send(publisher, topic, "c");
    connection = bench.connection(client);
    consumer = session(connection).createDurableSubscriber(topic, "sub");
    equal(List.of("b", "c"), take(consumer, 2), "messages that waited");
    // Another client's subscription of that name is another one.
    MessageConsumer other =
        session(bench.connection(client + "2")).createDurableSubscriber(topic, "sub");
    none(other);
    consumer.close();
    session(connection).unsubscribe("sub");
  }

  private static void killed(Bench bench) throws Exception {
    if (!bench.node.restartable()) {
      throw new Skip("needs a node of its own");
    }
    String client = bench.name("client");
    Session publisher = bench.session();
    Topic topic = publisher.createTopic(bench.name("news"));
    Connection connection = bench.connection(client);
    MessageConsumer consumer =
        session(connection).createDurableConsumer(topic, "sub", "n > 1", false);
    consumer.close();
    for (int n = 1; n <= 3; n++) {
      Message message = publisher.createTextMessage("m" + n);
      message.setIntProperty("n", n);
      publisher.createProducer(topic).send(message);
    }
    bench.node.kill9();
    bench.node.start();
    bench.reconnect();
    connection = bench.connection(client);
    consumer = session(connection).createDurableConsumer(topic, "sub", "n > 1", false);
    equal(List.of("m2", "m3"), take(consumer, 2), "messages over the kill");
    send(bench.session(), topic, "without n");
    none(consumer);
    consumer.close();
    session(connection).unsubscribe("sub");
  }

  private static void inUse(Bench bench) throws Exception {
    String client = bench.name("client");
    Session session = session(bench.connection(client));
    Topic topic = session.createTopic(bench.name("news"));
    MessageConsumer consumer = session.createDurableConsumer(topic, "sub");
    // A client's name is its own while it is connected.
    Bench.Act twin = () -> bench.connection(client);
    equal(InvalidClientIDException.class, refused("container id", twin).getClass(), "error");
    send(session, topic, "a");
    equal(List.of("a"), take(consumer, 1), "a message");
    consumer.close();
    session.unsubscribe("sub");
  }

  private static void otherTopic(Bench bench) throws Exception {
    Session session = session(bench.connection(bench.name("client")));
    Topic news = session.createTopic(bench.name("news"));
    Topic sport = session.createTopic(bench.name("sport"));
    session.createDurableConsumer(news, "sub").close();
    send(session, news, "lost");
    MessageConsumer consumer = session.createDurableConsumer(sport, "sub");
    send(session, news, "not for it");
    send(session, sport, "a");
    equal(List.of("a"), take(consumer, 1), "messages of the new topic");
    consumer.close();
    send(session, sport, "lost");
    consumer = session.createDurableConsumer(sport, "sub", "n = 1", false);
    none(consumer);
    Message message = session.createTextMessage("b");
    message.setIntProperty("n", 1);
    session.createProducer(sport).send(message);
    equal(List.of("b"), take(consumer, 1), "messages of the new selector");
    consumer.close();
    session.unsubscribe("sub");
  }

  private static void noLocal(Bench bench) throws Exception {
    String client = bench.name("client");
    Connection connection = bench.connection(client);
    Session session = session(connection);
    Topic topic = session.createTopic(bench.name("chat"));
    session.createDurableConsumer(topic, "sub", null, true).close();
    send(session, topic, "own");
    connection.close();
    send(bench.session(), topic, "foreign");
    session = session(bench.connection(client));
    send(session, topic, "own again");
    MessageConsumer consumer = session.createDurableConsumer(topic, "sub", null, true);
    equal(List.of("foreign"), take(consumer, 1), "messages of others");
    none(consumer);
    consumer.close();
    session.unsubscribe("sub");
  }

  private static void unsubscribe(Bench bench) throws Exception {
    String client = bench.name("client");
    Session session = session(bench.connection(client));
    Topic topic = session.createTopic(bench.name("news"));
    session.createDurableConsumer(topic, "sub").close();
    send(session, topic, "lost");
    session.unsubscribe("sub");
    MessageConsumer consumer = session.createDurableConsumer(topic, "sub");
    none(consumer);
    consumer.close();
    session.unsubscribe("sub");
    for (String name : List.of("sub", "never")) {
      Bench.Act act = () -> session.unsubscribe(name);
      equal(InvalidDestinationException.class, refused("no subscription", act).getClass(), "error");
    }
  }

  private static void shared(Bench bench) throws Exception {
    Session publisher = bench.session();
    Topic topic = publisher.createTopic(bench.name("work"));
    MessageConsumer one = bench.session().createSharedConsumer(topic, "pool");
    MessageConsumer other = bench.session().createSharedConsumer(topic, "pool");
    MessageConsumer alone = bench.session().createSharedConsumer(topic, "second pool");
    send(publisher, topic, Bench.numbers(20));
    Set<String> taken = new HashSet<>(take(one, 10));
    taken.addAll(take(other, 10));
    equal(20, taken.size(), "different messages of the pool");
    equal(List.of(Bench.numbers(20)), take(alone, 20), "messages of the second pool");
    one.close();
    send(publisher, topic, "a");
    equal(List.of("a"), take(other, 1), "a message of who is left");
    other.close();
    send(publisher, topic, "lost");
    none(bench.session().createSharedConsumer(topic, "pool"));
  }

  private static void sharedDurable(Bench bench) throws Exception {
    String client = bench.name("client");
    Connection connection = bench.connection(client);
    Session session = session(connection);
    Topic topic = session.createTopic(bench.name("work"));
    MessageConsumer one = session.createSharedDurableConsumer(topic, "pool");
    MessageConsumer other = session(connection).createSharedDurableConsumer(topic, "pool");
    send(bench.session(), topic, Bench.numbers(20));
    Set<String> taken = new HashSet<>(take(one, 10));
    taken.addAll(take(other, 10));
    equal(20, taken.size(), "different messages");
    one.close();
    other.close();
    send(bench.session(), topic, "waits");
    one = session.createSharedDurableConsumer(topic, "pool");
    equal(List.of("waits"), take(one, 1), "the message that waited");
    one.close();
    session.unsubscribe("pool");
    refused("no subscription", () -> session.unsubscribe("pool"));
  }

  private static void global(Bench bench) throws Exception {
    Session one = bench.session();
    Topic topic = one.createTopic(bench.name("work"));
    String name = bench.name("pool");
    MessageConsumer consumer = one.createSharedDurableConsumer(topic, name, "n = 1");
    consumer.close();
    Message message = one.createTextMessage("waits");
    message.setIntProperty("n", 1);
    one.createProducer(topic).send(message);
    Session other = bench.session();
    consumer = other.createSharedDurableConsumer(topic, name, "n = 1");
    equal(List.of("waits"), take(consumer, 1), "the message, by another client");
    refused("exclusive", () -> one.unsubscribe(name));
    consumer.close();
    other.unsubscribe(name);
    refused("no subscription", () -> one.unsubscribe(name));
  }

  private static void mismatch(Bench bench) throws Exception {
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("work"));
    Topic other = session.createTopic(bench.name("other"));
    String name = bench.name("pool");
    MessageConsumer consumer = session.createSharedDurableConsumer(topic, name);
    Session twin = bench.session();
    refused("in use", () -> twin.createSharedDurableConsumer(other, name));
    refused("in use", () -> twin.createSharedDurableConsumer(topic, name, "n = 1"));
    consumer.close();
    // Without consumers another topic makes it another subscription.
    MessageConsumer moved = twin.createSharedDurableConsumer(other, name);
    send(session, topic, "not for it");
    send(session, other, "a");
    equal(List.of("a"), take(moved, 1), "the new topic's message");
    moved.close();
    session.unsubscribe(name);
    Session own = session(bench.connection(bench.name("client")));
    own.createSharedDurableConsumer(topic, "pool").close();
    refused("is shared", () -> own.createDurableConsumer(topic, "pool"));
    own.unsubscribe("pool");
    own.createDurableConsumer(topic, "pool").close();
    refused("is not shared", () -> own.createSharedDurableConsumer(topic, "pool"));
    own.unsubscribe("pool");
  }
}
