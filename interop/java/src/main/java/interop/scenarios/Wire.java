package interop.scenarios;

import static interop.scenarios.Lab.body;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.impl.AMQImpl;
import com.rabbitmq.client.impl.Frame;
import interop.harness.Suite;
import java.util.Arrays;
import java.util.Map;

/** Java only: single frames, and the errors that need no scenario of their own in every library. */
final class Wire {
  private static final int FRAME_MAX_MIN = 8192;
  private static final int FRAME_OVERHEAD = 8;
  private static final BasicProperties BARE = new BasicProperties();

  private Wire() {}

  static void register(Suite suite) {
    suite.add("wire-protocol-header", body(Wire::protocolHeader));
    suite.add("wire-frame-max", body(Wire::frameMax));
    suite.add("wire-frame-too-large-501", body(Wire::frameTooLarge));
    suite.add("wire-frame-end-501", body(Wire::frameEnd));
    suite.add("wire-channel-not-open-504", body(Wire::channelNotOpen));
    suite.add("wire-channel-open-twice-504", body(Wire::channelOpenTwice));
    suite.add("wire-content-out-of-order-505", body(Wire::contentOutOfOrder));
    suite.add("wire-heartbeat-on-channel-505", body(Wire::heartbeatOnChannel));
    suite.add("wire-publish-while-closing", body(Wire::publishWhileClosing));
    suite.add("wire-method-unknown", body(Wire::methodUnknown));
    suite.add("error-consumer-tag-twice-530", body(Wire::consumerTagTwice));
    suite.add("error-not-implemented-540", body(Wire::notImplemented));
    suite.add("error-tx-and-confirm-406", body(Wire::txAndConfirm));
    suite.add("error-properties-406", body(Wire::badProperties));
    suite.add("error-reserved-names-403", body(Wire::reservedNames));
    suite.add("error-ack-all-of-nothing-406", body(Wire::ackAllOfNothing));
    suite.add("error-last-queue-404", body(Wire::lastQueue));
  }

  private static void protocolHeader(Lab lab) throws Exception {
    try (RawPeer peer = new RawPeer(lab)) {
      peer.write(new byte[] {'A', 'M', 'Q', 'P', 0, 0, 9, 2});
      Check.that(Arrays.equals(RawPeer.PROTOCOL_HEADER, peer.readOctets(8)),
          "an unknown 0-9 revision is not answered with the 0-9-1 header");
      peer.expectEnd();
    }
    try (RawPeer peer = new RawPeer(lab)) {
      peer.write(Lab.bytes("GET / HT"));
      byte[] answer = peer.readOctets(8);
      Check.equal("AMQP", new String(answer, 0, Math.min(4, answer.length)), "answer to HTTP");
      peer.expectEnd();
    }
    try (RawPeer peer = new RawPeer(lab)) {
      peer.write(new byte[] {'A', 'M', 'Q', 'P', 1, 1, 0, 9});
      peer.expect(0, AMQP.Connection.Start.class);
    }
  }

  /** A node splits what it delivers by the client's frame_max, and counts the frame's own octets. */
  private static void frameMax(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    int size = 100_000;
    channel.confirmSelect();
    channel.basicPublish("", queue, BARE, new byte[size]);
    channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
    try (RawPeer peer = RawPeer.opened(lab, FRAME_MAX_MIN)) {
      peer.openChannel(1);
      peer.send(1, new AMQImpl.Basic.Get(0, queue, true));
      peer.expect(1, AMQP.Basic.GetOk.class);
      Check.equal(AMQP.FRAME_HEADER, peer.readFrame().getType(), "after get-ok");
      int got = 0;
      while (got < size) {
        Frame frame = peer.readFrame();
        Check.equal(AMQP.FRAME_BODY, frame.getType(), "after " + got + " octets of body");
        Check.that(frame.getPayload().length <= FRAME_MAX_MIN - FRAME_OVERHEAD,
            "a body frame of " + frame.getPayload().length + " octets");
        got += frame.getPayload().length;
      }
      Check.equal(size, got, "body");
    }
  }

  private static void frameTooLarge(Lab lab) throws Exception {
    try (RawPeer peer = RawPeer.opened(lab, FRAME_MAX_MIN)) {
      peer.openChannel(1);
      peer.send(publish("", "nowhere"));
      peer.send(contentHeader(FRAME_MAX_MIN + 1));
      peer.sendBody(1, new byte[FRAME_MAX_MIN + 1]);
      AMQP.Connection.Close close = peer.expect(0, AMQP.Connection.Close.class);
      Check.reply(501, "FRAME_ERROR - ...", close.getReplyCode(), close.getReplyText());
      Check.that(close.getReplyText().contains("frame_too_large"), close.getReplyText());
    }
  }

  private static void frameEnd(Lab lab) throws Exception {
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.sendOctets(AMQP.FRAME_HEARTBEAT, 0, new byte[0], 0xCF);
      AMQP.Connection.Close close = peer.expect(0, AMQP.Connection.Close.class);
      Check.reply(501, "FRAME_ERROR - ...", close.getReplyCode(), close.getReplyText());
    }
  }

  private static void channelNotOpen(Lab lab) throws Exception {
    try (RawPeer peer = RawPeer.opened(lab, FRAME_MAX_MIN)) {
      peer.send(7, new AMQImpl.Basic.Get(0, "q", true));
      peer.expectConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'");
    }
  }

  private static void channelOpenTwice(Lab lab) throws Exception {
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.send(1, new AMQImpl.Channel.Open(""));
      peer.expectConnectionClose(504, "CHANNEL_ERROR - second 'channel.open' seen");
    }
  }

  private static void contentOutOfOrder(Lab lab) throws Exception {
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.send(publish("", "nowhere"));
      peer.send(1, new AMQImpl.Basic.Get(0, "q", true));
      peer.expectConnectionClose(505, "UNEXPECTED_FRAME - expected content header for class 60,"
          + " got non content header frame instead");
    }
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.send(publish("", "nowhere"));
      peer.send(contentHeader(10));
      peer.send(contentHeader(10));
      peer.expectConnectionClose(505,
          "UNEXPECTED_FRAME - expected content body, got non content body frame instead");
    }
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.sendBody(1, new byte[3]);
      peer.expectConnectionClose(505,
          "UNEXPECTED_FRAME - expected method frame, got non method frame instead");
    }
  }

  private static void heartbeatOnChannel(Lab lab) throws Exception {
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.sendOctets(AMQP.FRAME_HEARTBEAT, 1, new byte[0], AMQP.FRAME_END);
      AMQP.Connection.Close close = peer.expect(0, AMQP.Connection.Close.class);
      Check.equal(505, close.getReplyCode(), "reply code");
    }
  }

  /** Publishes the server has not yet refused are ignored until close-ok; then the number is new. */
  private static void publishWhileClosing(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    String missing = lab.name("missing");
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.send(publish(missing, "k"));
      peer.send(contentHeader(0));
      for (int i = 0; i < 10; i++) {
        peer.send(publish("", queue));
        peer.send(contentHeader(4));
        peer.sendBody(1, Lab.bytes("lost"));
      }
      peer.expectChannelClose(1, 404, "NOT_FOUND - no exchange '" + missing + "' in vhost '/'");
      peer.send(publish("", queue));
      peer.send(contentHeader(0));
      peer.send(1, new AMQImpl.Channel.CloseOk());
      peer.openChannel(1);
      peer.send(1, new AMQImpl.Confirm.Select(false));
      peer.expect(1, AMQP.Confirm.SelectOk.class);
      peer.send(publish("", queue));
      peer.send(contentHeader(4));
      peer.sendBody(1, Lab.bytes("kept"));
      Check.equal(1L, peer.expect(1, AMQP.Basic.Ack.class).getDeliveryTag(), "confirm tag");
    }
    Check.ready(channel, queue, 1);
  }

  /** No code is promised for a method that does not exist (RabbitMQ drops the socket). */
  private static void methodUnknown(Lab lab) throws Exception {
    Channel bystander = lab.channel();
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.sendOctets(AMQP.FRAME_METHOD, 1, new byte[] {0, 60, 3, (byte) 0xE7}, AMQP.FRAME_END);
      peer.expectDropped();
    }
    lab.queue(bystander, "q");
  }

  private static void consumerTagTwice(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    channel.basicConsume(queue, true, "a", new Inbox(channel));
    Check.connectionCloses(channel.getConnection(), 530,
        "NOT_ALLOWED - attempt to reuse consumer tag 'a'",
        () -> channel.basicConsume(queue, true, "a", new Inbox(channel)));
  }

  private static void notImplemented(Lab lab) throws Exception {
    Connection first = lab.connect();
    Check.connectionCloses(first, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)",
        () -> first.createChannel().basicQos(1, 1, false));
    Connection second = lab.connect();
    Check.connectionCloses(second, 540, "NOT_IMPLEMENTED - requeue=false",
        () -> second.createChannel().basicRecover(false));
    try (RawPeer peer = RawPeer.withChannel(lab, 1)) {
      peer.send(1, new AMQImpl.Channel.Flow(false));
      peer.expectConnectionClose(540, "NOT_IMPLEMENTED - active=false");
    }
  }

  private static void txAndConfirm(Lab lab) throws Exception {
    Connection connection = lab.connect();
    Channel confirming = connection.createChannel();
    confirming.confirmSelect();
    Check.channelCloses(confirming, 406,
        "PRECONDITION_FAILED - cannot switch from confirm to tx mode", confirming::txSelect);
    Channel transactional = connection.createChannel();
    transactional.txSelect();
    Check.channelCloses(transactional, 406,
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
        transactional::confirmSelect);
    Channel neither = connection.createChannel();
    Check.channelCloses(neither, 406, "PRECONDITION_FAILED - channel is not transactional",
        neither::txCommit);
  }

  private static void badProperties(Lab lab) throws Exception {
    Connection connection = lab.connect();
    String queue = lab.queue(connection.createChannel(), "q");
    BasicProperties.Builder with = new BasicProperties.Builder();
    refused(connection, queue, with.userId("bob").build(),
        "user_id property set to 'bob' but authenticated user was '" + lab.node().user() + "'");
    refused(connection, queue, new BasicProperties.Builder().expiration("abc").build(),
        "invalid expiration 'abc': no_integer");
    refused(connection, queue, new BasicProperties.Builder().expiration("-1").build(),
        "invalid expiration '-1': {value_negative,-1}");
    refused(connection, queue, new BasicProperties.Builder().headers(Map.of("CC", "k")).build(),
        "invalid message: {unacceptable_type_in_header,\"CC\",longstr}");
  }

  private static void refused(
      Connection connection, String queue, BasicProperties properties, String text)
      throws Exception {
    Channel channel = connection.createChannel();
    Check.channelCloses(channel, 406, "PRECONDITION_FAILED - " + text,
        () -> channel.basicPublish("", queue, properties, Lab.bytes("x")));
  }

  private static void reservedNames(Lab lab) throws Exception {
    Connection connection = lab.connect();
    Channel exchange = connection.createChannel();
    Check.channelCloses(exchange, 403,
        "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'",
        () -> exchange.exchangeDeclare("amq.foo", "direct"));
    Channel queue = connection.createChannel();
    Check.channelCloses(queue, 403,
        "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'",
        () -> queue.queueDeclare("amq.foo", true, false, false, Map.of()));
    Channel again = connection.createChannel();
    again.exchangeDeclare("amq.direct", "direct", true);
    Check.channelCloses(again, 403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        () -> again.exchangeDelete("amq.direct"));
  }

  private static void ackAllOfNothing(Lab lab) throws Exception {
    Connection connection = lab.connect();
    Channel all = connection.createChannel();
    all.basicAck(0, true);
    // The answer on the same channel shows that the ack was accepted.
    lab.queue(all, "q");
    Check.channelCloses(all, 406, "PRECONDITION_FAILED - unknown delivery tag 1",
        () -> all.basicAck(1, true));
    Channel zero = connection.createChannel();
    Check.channelCloses(zero, 406, "PRECONDITION_FAILED - unknown delivery tag 0",
        () -> zero.basicAck(0, false));
  }

  private static void lastQueue(Lab lab) throws Exception {
    Channel channel = lab.channel();
    Check.channelCloses(channel, 404, "NOT_FOUND - no previously declared queue",
        () -> channel.queuePurge(""));
  }

  private static Frame publish(String exchange, String key) throws Exception {
    return new AMQImpl.Basic.Publish(0, exchange, key, false, false).toFrame(1);
  }

  private static Frame contentHeader(long bodySize) throws Exception {
    return BARE.toFrame(1, bodySize);
  }
}
