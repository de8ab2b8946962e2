package interop.scenarios;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A TCP forwarder for one connection between the library and the node. It reads frame by frame, so
 * it can count heartbeats, swallow what the client says, and cut the connection.
 */
final class Relay implements AutoCloseable {
  private static final int FRAME_HEARTBEAT = 8;
  private static final int FRAME_HEADER_OCTETS = 7;
  private static final int PROTOCOL_HEADER_OCTETS = 8;

  private final ServerSocket listener;
  private final Socket toNode;
  private volatile Socket toClient;
  private volatile boolean clientMuted;
  private final CountDownLatch nodeClosed = new CountDownLatch(1);
  private final AtomicInteger fromClient = new AtomicInteger();
  private final AtomicInteger fromNode = new AtomicInteger();

  Relay(String host, int port) throws IOException {
    listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    toNode = new Socket(host, port);
    start("relay-to-node", this::clientToNode);
    start("relay-to-client", this::nodeToClient);
  }

  int port() {
    return listener.getLocalPort();
  }

  int heartbeatsFromClient() {
    return fromClient.get();
  }

  int heartbeatsFromNode() {
    return fromNode.get();
  }

  /** From now on nothing the client sends reaches the node. */
  void muteClient() {
    clientMuted = true;
  }

  /** True once the node has ended the connection on its side. */
  boolean awaitNodeClosed(long seconds) throws InterruptedException {
    return nodeClosed.await(seconds, TimeUnit.SECONDS);
  }

  /** Drops both sides without a goodbye. */
  void cut() throws IOException {
    toNode.close();
    if (toClient != null) {
      toClient.close();
    }
  }

  @Override
  public void close() throws IOException {
    cut();
    listener.close();
  }

  private interface Pump {
    void run() throws IOException, InterruptedException;
  }

  private final CountDownLatch accepted = new CountDownLatch(1);

  private void start(String name, Pump pump) {
    Thread thread = new Thread(() -> {
      try {
        pump.run();
      } catch (IOException | InterruptedException ended) {
        // One of the sides is gone; what follows from it is the scenario's to judge.
      }
    }, name);
    thread.setDaemon(true);
    thread.start();
  }

  private void clientToNode() throws IOException {
    toClient = listener.accept();
    toClient.setTcpNoDelay(true);
    accepted.countDown();
    DataInputStream in = new DataInputStream(toClient.getInputStream());
    DataOutputStream out = new DataOutputStream(toNode.getOutputStream());
    out.write(in.readNBytes(PROTOCOL_HEADER_OCTETS));
    while (true) {
      byte[] frame = readFrame(in);
      if (frame[0] == FRAME_HEARTBEAT) {
        fromClient.incrementAndGet();
      }
      if (!clientMuted) {
        out.write(frame);
      }
    }
  }

  private void nodeToClient() throws IOException, InterruptedException {
    accepted.await();
    DataInputStream in = new DataInputStream(toNode.getInputStream());
    DataOutputStream out = new DataOutputStream(toClient.getOutputStream());
    try {
      while (true) {
        byte[] frame = readFrame(in);
        if (frame[0] == FRAME_HEARTBEAT) {
          fromNode.incrementAndGet();
        }
        out.write(frame);
      }
    } finally {
      nodeClosed.countDown();
      toClient.close();
    }
  }

  private static byte[] readFrame(DataInputStream in) throws IOException {
    byte[] header = in.readNBytes(FRAME_HEADER_OCTETS);
    if (header.length < FRAME_HEADER_OCTETS) {
      throw new EOFException();
    }
    int payload = (header[3] & 0xFF) << 24 | (header[4] & 0xFF) << 16
        | (header[5] & 0xFF) << 8 | header[6] & 0xFF;
    byte[] frame = new byte[FRAME_HEADER_OCTETS + payload + 1];
    System.arraycopy(header, 0, frame, 0, FRAME_HEADER_OCTETS);
    in.readFully(frame, FRAME_HEADER_OCTETS, payload + 1);
    return frame;
  }
}
