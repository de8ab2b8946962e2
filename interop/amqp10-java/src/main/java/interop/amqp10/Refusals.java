package interop.amqp10;

import static interop.amqp10.Administration.fails;
import static interop.amqp10.Bench.body;

import com.rabbitmq.client.amqp.AmqpException.AmqpEntityDoesNotExistException;
import com.rabbitmq.client.amqp.AmqpException.AmqpResourceClosedException;
import com.rabbitmq.client.amqp.AmqpException.AmqpSecurityException;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConnectionBuilder;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Resource;
import interop.harness.Expect;
import interop.harness.Suite;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** What is refused, and what ends under a client. */
final class Refusals {
  private Refusals() {}

  static void register(Suite suite) {
    suite.add("bad-addresses", body(Refusals::addresses));
    suite.add("refused-logins", body(Refusals::logins));
    suite.add("missing-permissions", body(Refusals::permissions));
    suite.add("foreign-user-id-detaches", body(Refusals::foreignUser));
    suite.add("queue-is-deleted", body(Refusals::deletedQueue));
  }

  private static void addresses(Bench bench) {
    String nowhere = bench.name("nowhere");
    fails(AmqpEntityDoesNotExistException.class, () -> bench.publisher(nowhere));
    fails(AmqpEntityDoesNotExistException.class,
        () -> bench.connection.publisherBuilder().exchange(nowhere).key("k").build());
    fails(AmqpEntityDoesNotExistException.class,
        () -> bench.connection.consumerBuilder().queue(nowhere).messageHandler(new Inbox()).build());
    bench.management();
  }

  private static void logins(Bench bench) {
    fails(AmqpSecurityException.class, () -> bench.connecting().password("wrong").build());
    fails(AmqpSecurityException.class, () -> bench.connecting().virtualHost("nowhere").build());
  }

  private static void permissions(Bench bench) throws Exception {
    String queue = bench.queue();
    String user = bench.name("user");
    bench.node.ctl("add_user", user, "secret");
    bench.node.ctl("set_permissions", user, "^$", "^$", ".*");
    ConnectionBuilder connecting = bench.connecting().username(user).password("secret");
    // A refusal ends the session, which the client's links share.
    try (Connection publishing = connecting.build(); Connection consuming = connecting.build()) {
      fails(AmqpSecurityException.class, () -> publishing.publisherBuilder().queue(queue).build());
      fails(AmqpSecurityException.class, () -> publishing.management().queue(queue + "2").declare());
      consuming.consumerBuilder().queue(queue).messageHandler(new Inbox()).build();
    } finally {
      bench.node.ctl("delete_user", user);
    }
  }

  private static void foreignUser(Bench bench) throws Exception {
    CompletableFuture<Throwable> closed = new CompletableFuture<>();
    Publisher publisher = bench.connection.publisherBuilder().queue(bench.queue())
        .listeners(context -> tell(context, closed)).build();
    publisher.publish(publisher.message().userId("somebody".getBytes()), context -> {});
    Throwable cause = closed.get(Expect.WAIT_SECONDS, TimeUnit.SECONDS);
    Expect.that(cause instanceof AmqpSecurityException, "why it was closed: " + cause);
  }

  private static void deletedQueue(Bench bench) throws Exception {
    String queue = bench.queue();
    CompletableFuture<Throwable> closed = new CompletableFuture<>();
    bench.connection.consumerBuilder().queue(queue).messageHandler(new Inbox())
        .listeners(context -> tell(context, closed)).build();
    bench.management().queueDelete(queue);
    Throwable cause = closed.get(Expect.WAIT_SECONDS, TimeUnit.SECONDS);
    Expect.that(cause instanceof AmqpResourceClosedException || cause instanceof AmqpEntityDoesNotExistException,
        "why it was closed: " + cause);
  }

  private static void tell(Resource.Context context, CompletableFuture<Throwable> closed) {
    if (context.currentState() == Resource.State.CLOSED) {
      closed.complete(context.failureCause());
    }
  }
}
