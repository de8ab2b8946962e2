package interop.scenarios;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ShutdownNotifier;
import com.rabbitmq.client.ShutdownSignalException;
import interop.harness.Expect;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What is expected of a broker, in the words of the client library. */
final class Check extends Expect {
  private Check() {}

  interface Action {
    void run() throws Exception;
  }

  /** Polls the ready count of a queue (a passive declare may run ahead of publishes). */
  static void ready(Channel channel, String queue, int expected) throws Exception {
    eventually(expected, "ready in " + queue, () -> channel.queueDeclarePassive(queue).getMessageCount());
  }

  /**
   * The action must make the server close this channel, and only it, with the code and text.
   * A text that ends in "..." is a prefix.
   */
  static void channelCloses(Channel channel, int code, String text, Action action)
      throws Exception {
    ShutdownSignalException signal = shutdownAfter(channel, action);
    Check.that(!signal.isHardError(), "the connection closed: " + signal.getMessage());
    AMQP.Channel.Close close = (AMQP.Channel.Close) signal.getReason();
    reply(code, text, close.getReplyCode(), close.getReplyText());
    try (Channel next = channel.getConnection().createChannel()) {
      that(next != null && next.isOpen(), "no new channel after a channel error");
    }
  }

  /** The action must make the server close the connection with the code and text. */
  static void connectionCloses(Connection connection, int code, String text, Action action)
      throws Exception {
    ShutdownSignalException signal = shutdownAfter(connection, action);
    that(signal.getReason() instanceof AMQP.Connection.Close, "no connection.close: " + signal.getMessage());
    AMQP.Connection.Close close = (AMQP.Connection.Close) signal.getReason();
    reply(code, text, close.getReplyCode(), close.getReplyText());
  }

  static void reply(int code, String text, int actualCode, String actualText) {
    equal(code, actualCode, "reply code (text: " + actualText + ")");
    if (text.endsWith("...")) {
      startsWith(text.substring(0, text.length() - 3), actualText, "reply text");
    } else {
      equal(text, actualText, "reply text");
    }
  }

  private static ShutdownSignalException shutdownAfter(ShutdownNotifier target, Action action)
      throws Exception {
    CompletableFuture<ShutdownSignalException> shutdown = new CompletableFuture<>();
    target.addShutdownListener(shutdown::complete);
    try {
      action.run();
    } catch (IOException | AlreadyClosedException expected) {
      // A synchronous method reports the close as its own failure as well.
    }
    try {
      return shutdown.get(WAIT_SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException late) {
      throw new AssertionError("not closed after " + WAIT_SECONDS + " s", late);
    }
  }
}
