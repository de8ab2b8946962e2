package interop.scenarios;

import static interop.scenarios.Lab.body;
import static interop.scenarios.Lab.publish;
import static interop.scenarios.Lab.publishNumbers;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import interop.harness.Suite;
import java.util.Map;

/** Kinds of queues, purging and deleting. */
final class Queues {
  private Queues() {}

  static void register(Suite suite) {
    suite.add("queue-exclusive-405", body(Queues::exclusiveLocked));
    suite.add("queue-exclusive-gone", body(Queues::exclusiveGone));
    suite.add("queue-server-named", body(Queues::serverNamed));
    suite.add("queue-auto-delete", body(Queues::autoDelete));
    suite.add("queue-purge", body(Queues::purge));
    suite.add("queue-delete-if-unused", body(Queues::deleteIfUnused));
    suite.add("queue-delete-if-empty", body(Queues::deleteIfEmpty));
  }

  private interface OnChannel {
    void run(Channel channel) throws Exception;
  }

  private static void exclusiveLocked(Lab lab) throws Exception {
    Channel owner = lab.channel();
    String queue = lab.name("q");
    owner.queueDeclare(queue, false, true, false, Map.of());
    Connection other = lab.connect();
    locked(other, queue, channel -> channel.queueDeclarePassive(queue));
    locked(other, queue, channel -> channel.basicConsume(queue, true, new Inbox(channel)));
    locked(other, queue, channel -> channel.basicGet(queue, true));
    locked(other, queue, channel -> channel.queuePurge(queue));
    locked(other, queue, channel -> channel.queueDelete(queue));
    publishNumbers(other.createChannel(), queue, 1);
    Check.ready(owner, queue, 1);
  }

  private static void locked(Connection connection, String queue, OnChannel action)
      throws Exception {
    Channel channel = connection.createChannel();
    Check.channelCloses(channel, 405,
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + queue
            + "' in vhost '/'...",
        () -> action.run(channel));
  }

  private static void exclusiveGone(Lab lab) throws Exception {
    String queue = lab.name("q");
    Channel first = lab.channel();
    first.queueDeclare(queue, false, true, false, Map.of());
    publishNumbers(first, queue, 2);
    first.getConnection().close();
    Channel second = lab.channel();
    Check.equal(0, second.queueDeclare(queue, false, true, false, Map.of()).getMessageCount(),
        "messages in the queue declared again");
    second.getConnection().close();
    Channel third = lab.channel();
    Check.channelCloses(third, 404, "NOT_FOUND - no queue '" + queue + "' in vhost '/'",
        () -> third.queueDeclarePassive(queue));
  }

  private static void serverNamed(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.exchange(channel, "x", "fanout");
    String queue = channel.queueDeclare("", false, true, false, Map.of()).getQueue();
    Check.startsWith("amq.gen-", queue, "queue name");
    channel.queueBind("", exchange, "");
    Inbox inbox = new Inbox(channel);
    channel.basicConsume("", true, inbox);
    publish(channel, exchange, "k", "hello");
    Check.equal("hello", Inbox.body(inbox.take()), "through the binding");
    channel.queueDeclarePassive(queue);
    Channel next = channel.getConnection().createChannel();
    Check.channelCloses(next, 403, "ACCESS_REFUSED - queue name '" + queue + "'...",
        () -> next.queueDeclare(queue, false, true, false, Map.of()));
  }

  private static void autoDelete(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.name("q");
    channel.queueDeclare(queue, true, false, true, Map.of());
    lab.deleteQueueLater(queue);
    channel.queueDeclarePassive(queue);
    String first = channel.basicConsume(queue, true, new Inbox(channel));
    String second = channel.basicConsume(queue, true, new Inbox(channel));
    channel.basicCancel(first);
    Check.equal(1, channel.queueDeclarePassive(queue).getConsumerCount(), "consumers");
    channel.basicCancel(second);
    Check.channelCloses(channel, 404, "NOT_FOUND - no queue '" + queue + "' in vhost '/'",
        () -> channel.queueDeclarePassive(queue));
  }

  private static void purge(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 5);
    channel.basicGet(queue, false);
    channel.basicGet(queue, false);
    Check.equal(3, channel.queuePurge(queue).getMessageCount(), "purged");
    channel.basicNack(2, true, true);
    Check.ready(channel, queue, 2);
  }

  private static void deleteIfUnused(Lab lab) throws Exception {
    Channel consuming = lab.channel();
    String queue = lab.queue(consuming, "q");
    String tag = consuming.basicConsume(queue, true, new Inbox(consuming));
    Channel refused = lab.channel();
    Check.channelCloses(refused, 406,
        "PRECONDITION_FAILED - queue '" + queue + "' in vhost '/' in use",
        () -> refused.queueDelete(queue, true, false));
    consuming.basicCancel(tag);
    consuming.queueDelete(queue, true, false);
    gone(lab, queue);
  }

  private static void deleteIfEmpty(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 1);
    Channel refused = lab.channel();
    Check.channelCloses(refused, 406,
        "PRECONDITION_FAILED - queue '" + queue + "' in vhost '/' not empty",
        () -> refused.queueDelete(queue, false, true));
    channel.queuePurge(queue);
    channel.queueDelete(queue, false, true);
    Check.equal(0, channel.queueDelete(queue).getMessageCount(), "deleting a missing queue");
    gone(lab, queue);
  }

  private static void gone(Lab lab, String queue) throws Exception {
    Channel channel = lab.channel();
    Check.channelCloses(channel, 404, "NOT_FOUND - no queue '" + queue + "' in vhost '/'",
        () -> channel.queueDeclarePassive(queue));
  }
}
