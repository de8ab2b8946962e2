package interop.harness;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The one broker node a suite talks to: either a process of its own, which can be stopped, killed
 * and restarted on the same directory and port, or an external one named by {@code INTEROP_URI}.
 */
public final class Node implements AutoCloseable {
  /** As a word of its own: a node that cannot start may say "already". */
  private static final Pattern READY_WORD = Pattern.compile("\\bready\\b");
  private static final long READY_SECONDS = 30;
  private static final long STOP_SECONDS = 30;
  private static final int LOG_LINES_KEPT = 40;
  private static final int PORT_MIN = 20_000;
  private static final int PORT_MAX = 32_000;
  private static final int PORT_ATTEMPTS = 100;

  private static final int STREAM_PORT =
      Integer.parseInt(System.getenv().getOrDefault("INTEROP_STREAM_PORT", "5552"));

  private final URI uri;
  private final int streamPort;
  private final Path dataDir;
  private final String binary;
  private final Deque<String> log = new ArrayDeque<>();
  private Process process;

  private Node(URI uri, int streamPort, String binary, Path dataDir) {
    this.uri = uri;
    this.streamPort = streamPort;
    this.binary = binary;
    this.dataDir = dataDir;
  }

  /** Connects to {@code INTEROP_URI}, or starts {@code LEVERET_BIN} on a fresh directory. */
  public static Node open() throws Exception {
    String external = System.getenv("INTEROP_URI");
    if (external != null && !external.isEmpty()) {
      return new Node(URI.create(external), STREAM_PORT, null, null);
    }
    String binary = System.getenv("LEVERET_BIN");
    if (binary == null || binary.isEmpty()) {
      throw new IllegalStateException("set LEVERET_BIN (broker binary) or INTEROP_URI (running broker)");
    }
    int port = freePort();
    URI uri = URI.create("amqp://guest:guest@127.0.0.1:" + port);
    Node node = new Node(uri, freePort(), binary, Files.createTempDirectory("leveret-interop"));
    node.start();
    return node;
  }

  public String host() {
    return uri.getHost();
  }

  public int port() {
    return uri.getPort() < 0 ? 5672 : uri.getPort();
  }

  /**
   * Where clients of the stream protocol connect: on an external broker {@code
   * INTEROP_STREAM_PORT}, 5552 by default.
   */
  public int streamPort() {
    return streamPort;
  }

  public String user() {
    return uri.getUserInfo() == null ? "guest" : uri.getUserInfo().split(":", 2)[0];
  }

  public String password() {
    return uri.getUserInfo() == null ? "guest" : uri.getUserInfo().split(":", 2)[1];
  }

  /** The address in the form tools take on their command line. */
  public String uri() {
    return "amqp://" + user() + ":" + password() + "@" + host() + ":" + port();
  }

  /** False for an external broker, whose process is not ours to stop. */
  public boolean restartable() {
    return binary != null;
  }

  public boolean running() {
    return binary == null || (process != null && process.isAlive());
  }

  /** Starts the process and returns once it serves connections. */
  public synchronized void start() throws Exception {
    ProcessBuilder builder = new ProcessBuilder(
        List.of(binary, "server", "--data-dir", dataDir.toString(),
            "--set", "listeners.tcp.1=127.0.0.1:" + port(),
            "--set", "stream.listeners.tcp.1=127.0.0.1:" + streamPort));
    builder.redirectErrorStream(true);
    process = builder.start();
    CountDownLatch ready = new CountDownLatch(1);
    Process started = process;
    Thread reader = new Thread(() -> readLog(started, ready), "node-log");
    reader.setDaemon(true);
    reader.start();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(READY_SECONDS);
    while (!ready.await(20, TimeUnit.MILLISECONDS) && !accepts()) {
      if (!process.isAlive()) {
        throw new IllegalStateException("node exited with " + process.exitValue() + "\n" + tail());
      }
      if (System.nanoTime() > deadline) {
        kill9();
        throw new IllegalStateException("node not ready after " + READY_SECONDS + " s\n" + tail());
      }
    }
  }

  /** SIGTERM; the process must end by itself with exit code 0. */
  public synchronized void stop() throws Exception {
    process.destroy();
    if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
      kill9();
      throw new IllegalStateException("node still running " + STOP_SECONDS + " s after SIGTERM\n" + tail());
    }
    if (process.exitValue() != 0) {
      throw new IllegalStateException(
          "after SIGTERM the node ended with " + process.exitValue() + "\n" + tail());
    }
  }

  /** SIGKILL: nothing is flushed that was not already on disk. */
  public synchronized void kill9() throws Exception {
    process.destroyForcibly();
    process.waitFor();
  }

  /**
   * Runs a verb of the node's command-line tool, or of the one {@code INTEROP_CTL} names for an
   * external broker, and returns what it prints.
   */
  public String ctl(String... arguments) throws Exception {
    List<String> command = new ArrayList<>(ctlCommand());
    command.add("-q");
    command.addAll(List.of(arguments));
    Process tool = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(tool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    int status = tool.waitFor();
    if (status != 0) {
      throw new IllegalStateException(String.join(" ", arguments) + ": exit " + status + ": " + output);
    }
    return output;
  }

  private List<String> ctlCommand() {
    if (binary != null) {
      return List.of(binary, "ctl", "--data-dir", dataDir.toString());
    }
    String external = System.getenv("INTEROP_CTL");
    if (external == null || external.isBlank()) {
      throw new Skip("the command-line tool needs a node of our own, or INTEROP_CTL");
    }
    return List.of(external.trim().split("\\s+"));
  }

  /** The last lines the node printed. */
  public String tail() {
    synchronized (log) {
      return String.join("\n", log);
    }
  }

  @Override
  public void close() throws Exception {
    if (process != null && process.isAlive()) {
      stop();
    }
    if (dataDir != null) {
      deleteTree(dataDir);
    }
  }

  private void readLog(Process source, CountDownLatch ready) {
    try (BufferedReader lines = new BufferedReader(
        new InputStreamReader(source.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        synchronized (log) {
          log.addLast(line);
          if (log.size() > LOG_LINES_KEPT) {
            log.removeFirst();
          }
        }
        if (READY_WORD.matcher(line).find()) {
          ready.countDown();
        }
      }
    } catch (IOException closed) {
      // The stream ends with the process.
    }
  }

  private boolean accepts() {
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress(host(), port()), 200);
      return true;
    } catch (IOException refused) {
      return false;
    }
  }

  /**
   * A free port below the range the kernel hands out: a client that keeps connecting to a port of
   * that range while the node is down can end up connected to itself.
   */
  private static int freePort() {
    Random random = new Random();
    for (int attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
      int port = PORT_MIN + random.nextInt(PORT_MAX - PORT_MIN);
      try (ServerSocket socket = new ServerSocket()) {
        socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
        return port;
      } catch (IOException taken) {
        // The next one.
      }
    }
    throw new IllegalStateException("no free port between " + PORT_MIN + " and " + PORT_MAX);
  }

  private static void deleteTree(Path root) throws IOException {
    try (Stream<Path> paths = Files.walk(root)) {
      paths.sorted(Comparator.reverseOrder()).forEach(path -> {
        try {
          Files.delete(path);
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
      });
    }
  }
}
