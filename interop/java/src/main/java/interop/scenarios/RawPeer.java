package interop.scenarios;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.impl.AMQImpl;
import com.rabbitmq.client.impl.Frame;
import com.rabbitmq.client.impl.LongStringHelper;
import com.rabbitmq.client.impl.Method;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.Socket;
import java.net.SocketException;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A connection driven frame by frame, for what the library would never send by itself. */
final class RawPeer implements AutoCloseable {
  static final byte[] PROTOCOL_HEADER = {'A', 'M', 'Q', 'P', 0, 0, 9, 1};

  private static final int PAYLOAD_MAX = 1 << 20;

  private final Socket socket;
  private final DataInputStream in;
  private final DataOutputStream out;

  RawPeer(Lab lab) throws IOException {
    socket = new Socket(lab.node().host(), lab.node().port());
    socket.setTcpNoDelay(true);
    socket.setSoTimeout((int) TimeUnit.SECONDS.toMillis(Check.WAIT_SECONDS));
    in = new DataInputStream(socket.getInputStream());
    out = new DataOutputStream(socket.getOutputStream());
  }

  /** A connection that has been through the handshake with this frame_max. */
  static RawPeer opened(Lab lab, int frameMax) throws IOException {
    RawPeer peer = new RawPeer(lab);
    peer.write(PROTOCOL_HEADER);
    peer.expect(0, AMQP.Connection.Start.class);
    String response = "\0" + lab.node().user() + "\0" + lab.node().password();
    peer.send(0, new AMQImpl.Connection.StartOk(
        Map.of("capabilities", Map.of("consumer_cancel_notify", true)), "PLAIN",
        LongStringHelper.asLongString(response), "en_US"));
    AMQP.Connection.Tune tune = peer.expect(0, AMQP.Connection.Tune.class);
    peer.send(0, new AMQImpl.Connection.TuneOk(tune.getChannelMax(), frameMax, 0));
    peer.send(0, new AMQImpl.Connection.Open("/", "", false));
    peer.expect(0, AMQP.Connection.OpenOk.class);
    return peer;
  }

  /** The same with the channel opened. */
  static RawPeer withChannel(Lab lab, int channel) throws IOException {
    RawPeer peer = opened(lab, 131_072);
    peer.openChannel(channel);
    return peer;
  }

  void openChannel(int channel) throws IOException {
    send(channel, new AMQImpl.Channel.Open(""));
    expect(channel, AMQP.Channel.OpenOk.class);
  }

  void write(byte[] bytes) throws IOException {
    out.write(bytes);
    out.flush();
  }

  void send(int channel, Method method) throws IOException {
    send(method.toFrame(channel));
  }

  void send(Frame frame) throws IOException {
    frame.writeTo(out);
    out.flush();
  }

  /** A frame of any type with any last octet. */
  void sendOctets(int type, int channel, byte[] payload, int last) throws IOException {
    out.writeByte(type);
    out.writeShort(channel);
    out.writeInt(payload.length);
    out.write(payload);
    out.writeByte(last);
    out.flush();
  }

  void sendBody(int channel, byte[] payload) throws IOException {
    sendOctets(AMQP.FRAME_BODY, channel, payload, AMQP.FRAME_END);
  }

  Frame readFrame() throws IOException {
    return Frame.readFrom(in, () -> PAYLOAD_MAX);
  }

  /** The next frame, which must be this method on this channel. */
  <M> M expect(int channel, Class<M> type) throws IOException {
    Frame frame = readFrame();
    Check.that(frame != null, "the node closed instead of sending " + type.getName());
    Check.equal(AMQP.FRAME_METHOD, frame.getType(), "frame type");
    DataInputStream payload = new DataInputStream(new ByteArrayInputStream(frame.getPayload()));
    com.rabbitmq.client.Method method = AMQImpl.readMethodFrom(payload);
    Check.that(type.isInstance(method), "expected " + type.getName() + ", got " + method);
    Check.equal(channel, frame.getChannel(), "channel of " + method);
    return type.cast(method);
  }

  /** The node must answer with connection.close, and end the stream after close-ok. */
  void expectConnectionClose(int code, String text) throws IOException {
    AMQP.Connection.Close close = expect(0, AMQP.Connection.Close.class);
    Check.reply(code, text, close.getReplyCode(), close.getReplyText());
    send(0, new AMQImpl.Connection.CloseOk());
    expectEnd();
  }

  /** The node must answer with channel.close; close-ok is for the caller to send. */
  void expectChannelClose(int channel, int code, String text) throws IOException {
    AMQP.Channel.Close close = expect(channel, AMQP.Channel.Close.class);
    Check.reply(code, text, close.getReplyCode(), close.getReplyText());
  }

  byte[] readOctets(int n) throws IOException {
    return in.readNBytes(n);
  }

  void expectEnd() throws IOException {
    try {
      Check.equal(-1, in.read(), "octet after the end");
    } catch (SocketException ended) {
      // A reset is an end as well.
    }
  }

  /** The stream must end, with or without a connection.close before. */
  void expectDropped() throws IOException {
    try {
      Frame frame = readFrame();
      if (frame != null) {
        Check.equal(0, frame.getChannel(), "channel of a frame before the end");
        send(0, new AMQImpl.Connection.CloseOk());
        expectEnd();
      }
    } catch (EOFException | SocketException ended) {
      // Dropped at once.
    }
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
