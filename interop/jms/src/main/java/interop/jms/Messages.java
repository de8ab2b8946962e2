package interop.jms;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;
import static interop.jms.Bench.WAIT_MILLIS;
import static interop.jms.Bench.body;

import interop.harness.Suite;
import jakarta.jms.BytesMessage;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageEOFException;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/** Bodies and properties of each type. */
final class Messages {
  private static final int LARGE_BYTES = 300_000;

  private Messages() {}

  static void register(Suite suite) {
    suite.add("message-text", body(Messages::text));
    suite.add("message-bytes", body(Messages::bytes));
    suite.add("message-map", body(Messages::map));
    suite.add("message-object", body(Messages::object));
    suite.add("message-stream", body(Messages::stream));
    suite.add("message-properties", body(Messages::properties));
  }

  /** There and back by a queue. */
  private static Message pass(Bench bench, Session session, Message message) throws Exception {
    Queue queue = bench.queue(session);
    try (MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue)) {
      producer.send(message);
      Message got = consumer.receive(WAIT_MILLIS);
      that(got != null, "nothing came");
      equal(message.getJMSMessageID(), got.getJMSMessageID(), "message id");
      equal(message.getJMSTimestamp(), got.getJMSTimestamp(), "timestamp");
      equal(queue, got.getJMSDestination(), "destination");
      equal(false, got.getJMSRedelivered(), "redelivered");
      return got;
    }
  }

  private static void text(Bench bench) throws Exception {
    Session session = bench.session();
    for (String text : List.of("", "hare", "Häsin ☃ \0", "x".repeat(LARGE_BYTES))) {
      TextMessage got = (TextMessage) pass(bench, session, session.createTextMessage(text));
      equal(text, got.getText(), "text");
    }
  }

  private static void bytes(Bench bench) throws Exception {
    Session session = bench.session();
    byte[] large = new byte[LARGE_BYTES];
    new Random(1).nextBytes(large);
    BytesMessage sent = session.createBytesMessage();
    sent.writeInt(-7);
    sent.writeDouble(0.25);
    sent.writeUTF("ears");
    sent.writeBytes(large);
    BytesMessage got = (BytesMessage) pass(bench, session, sent);
    equal(-7, got.readInt(), "an int");
    equal(0.25, got.readDouble(), "a double");
    equal("ears", got.readUTF(), "a text");
    byte[] read = new byte[LARGE_BYTES];
    equal(LARGE_BYTES, got.readBytes(read), "bytes");
    that(Arrays.equals(large, read), "other bytes came");
  }

  private static void map(Bench bench) throws Exception {
    Session session = bench.session();
    MapMessage sent = session.createMapMessage();
    sent.setBoolean("boolean", true);
    sent.setByte("byte", (byte) -1);
    sent.setChar("char", 'ä');
    sent.setLong("long", 1L << 60);
    sent.setFloat("float", 0.5f);
    sent.setString("string", "hare");
    sent.setBytes("bytes", new byte[] {1, 2});
    MapMessage got = (MapMessage) pass(bench, session, sent);
    equal(true, got.getBoolean("boolean"), "a boolean");
    equal((byte) -1, got.getByte("byte"), "a byte");
    equal('ä', got.getChar("char"), "a char");
    equal(1L << 60, got.getLong("long"), "a long");
    equal(0.5f, got.getFloat("float"), "a float");
    equal("hare", got.getString("string"), "a string");
    that(Arrays.equals(new byte[] {1, 2}, got.getBytes("bytes")), "other bytes");
  }

  private static void object(Bench bench) throws Exception {
    Session session = bench.session();
    ArrayList<String> sent = new ArrayList<>(List.of("hare", "hound"));
    ObjectMessage got = (ObjectMessage) pass(bench, session, session.createObjectMessage(sent));
    equal(sent, got.getObject(), "object");
  }

  private static void stream(Bench bench) throws Exception {
    Session session = bench.session();
    StreamMessage sent = session.createStreamMessage();
    sent.writeString("hare");
    sent.writeShort((short) 3);
    sent.writeObject(4L);
    StreamMessage got = (StreamMessage) pass(bench, session, sent);
    equal("hare", got.readString(), "a string");
    equal((short) 3, got.readShort(), "a short");
    equal(4L, got.readObject(), "a long");
    try {
      got.readObject();
      throw new AssertionError("there is more");
    } catch (MessageEOFException end) {
      // As it should.
    }
  }

  private static void properties(Bench bench) throws Exception {
    Session session = bench.session();
    Message sent = session.createMessage();
    sent.setJMSType("kind");
    sent.setJMSCorrelationID("c");
    sent.setBooleanProperty("boolean", false);
    sent.setByteProperty("byte", (byte) -128);
    sent.setShortProperty("short", (short) -300);
    sent.setIntProperty("int", 70_000);
    sent.setLongProperty("long", -(1L << 40));
    sent.setFloatProperty("float", 0.5f);
    sent.setDoubleProperty("double", -0.125);
    sent.setStringProperty("string", "hare");
    sent.setStringProperty("JMSXGroupID", "g");
    sent.setIntProperty("JMSXGroupSeq", 3);
    Message got = pass(bench, session, sent);
    equal("kind", got.getJMSType(), "type");
    equal("c", got.getJMSCorrelationID(), "correlation id");
    equal(1, got.getIntProperty("JMSXDeliveryCount"), "delivery count");
    for (String name : List.of("boolean", "byte", "short", "int", "long", "float", "double",
        "string", "JMSXGroupID", "JMSXGroupSeq")) {
      equal(sent.getObjectProperty(name), got.getObjectProperty(name), name);
    }
  }
}
