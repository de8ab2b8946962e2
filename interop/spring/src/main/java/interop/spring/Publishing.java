package interop.spring;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ShutdownSignalException;
import interop.harness.Expect;
import interop.harness.Skip;
import interop.harness.Suite;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.DirectExchange;
import org.springframework.amqp.core.ExchangeBuilder;
import org.springframework.amqp.core.FanoutExchange;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.ReturnedMessage;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.ChannelListener;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Confirms and returns, told by each message's correlation data. */
final class Publishing {
  private static final int MANY = 500;

  private Publishing() {}

  static void register(Suite suite) {
    suite.add("confirms-correlated", Lab.body(Publishing::correlated));
    suite.add("confirms-simple", Lab.body(Publishing::simple));
    suite.add("returns-before-confirms", Lab.body(Publishing::returned));
    suite.add("confirms-negative", Lab.body(Publishing::negative));
    suite.add("confirms-missing-exchange", Lab.body(Publishing::missingExchange));
    suite.add("delayed-exchange", Lab.body(Publishing::delayed));
  }

  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Declarables outgoing(@Value("${interop.prefix}") String prefix) {
      FanoutExchange news = new FanoutExchange(prefix + ".news");
      Queue first = new Queue(prefix + ".news.first");
      Queue second = new Queue(prefix + ".news.second");
      Queue single = QueueBuilder.durable(prefix + ".single").maxLength(1)
          .overflow(QueueBuilder.Overflow.rejectPublish).build();
      return new Declarables(news, first, second, single,
          BindingBuilder.bind(first).to(news), BindingBuilder.bind(second).to(news));
    }
  }

  private static void correlated(Lab lab) throws Exception {
    List<CorrelationData> sent = new ArrayList<>(MANY);
    for (String text : Lab.numbers(MANY)) {
      CorrelationData correlation = new CorrelationData(text);
      lab.template().convertAndSend(lab.name("news"), "", text, correlation);
      sent.add(correlation);
    }
    for (CorrelationData correlation : sent) {
      Expect.that(confirm(correlation).ack(), "not confirmed: " + correlation);
      Expect.equal(null, correlation.getReturned(), "returned");
    }
    lab.awaitReady("news.first", MANY);
    lab.awaitReady("news.second", MANY);
    Expect.equal(MANY, lab.admin().purgeQueue(lab.name("news.first")), "purged");
  }

  /** The other kind of confirms, waited for on a channel of the caller's own. */
  private static void simple(Lab lab) {
    CachingConnectionFactory connections = new CachingConnectionFactory(lab.node().host(), lab.node().port());
    connections.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.SIMPLE);
    try {
      Boolean confirmed = new RabbitTemplate(connections).invoke(operations -> {
        Lab.numbers(MANY).forEach(text -> operations.convertAndSend(lab.name("news"), "", text));
        return operations.waitForConfirms(Expect.WAIT_SECONDS * 1000);
      });
      Expect.equal(true, confirmed, "confirmed");
    } finally {
      connections.destroy();
    }
  }

  private static void returned(Lab lab) throws Exception {
    CorrelationData correlation = new CorrelationData("unroutable");
    lab.template().convertAndSend("", lab.name("nowhere"), "come back", correlation);
    Expect.that(confirm(correlation).ack(), "an unroutable message is confirmed");
    ReturnedMessage returned = correlation.getReturned();
    Expect.that(returned != null, "not returned before the confirm");
    Expect.equal(312, returned.getReplyCode(), "reply code");
    Expect.equal("NO_ROUTE", returned.getReplyText(), "reply text");
    Expect.equal(lab.name("nowhere"), returned.getRoutingKey(), "key");
    Expect.equal("come back", new String(returned.getMessage().getBody()), "body");
  }

  private static void negative(Lab lab) throws Exception {
    CorrelationData fits = new CorrelationData("fits");
    lab.template().convertAndSend("", lab.name("single"), "1", fits);
    Expect.that(confirm(fits).ack(), "the first fits");
    CorrelationData refused = new CorrelationData("refused");
    lab.template().convertAndSend("", lab.name("single"), "2", refused);
    Expect.that(!confirm(refused).ack(), "the second is refused");
    Expect.equal(null, refused.getReturned(), "returned");
    Expect.equal("1", new String(lab.receive("single").getBody()), "what is in the queue");
    Expect.equal(0L, lab.ready("single"), "ready");
  }

  /** The channel closes; what was not confirmed is told so. */
  private static void missingExchange(Lab lab) throws Exception {
    Received<String> reasons = new Received<>();
    lab.bean(CachingConnectionFactory.class).addChannelListener(channelListener(reasons));
    CorrelationData lost = new CorrelationData("lost");
    lab.template().convertAndSend(lab.name("missing"), "", "lost", lost);
    Expect.that(!confirm(lost).ack(), "confirmed");
    String text = "NOT_FOUND - no exchange '" + lab.name("missing") + "' in vhost '/'";
    String reason = reasons.take();
    Expect.that(reason.contains(text), "reason: " + reason);
    CorrelationData next = new CorrelationData("next");
    lab.template().convertAndSend(lab.name("news"), "", "next", next);
    Expect.that(confirm(next).ack(), "the next channel works");
  }

  private static ChannelListener channelListener(Received<String> reasons) {
    return new ChannelListener() {
      @Override
      public void onCreate(Channel channel, boolean transactional) {
        // Only ends are of interest.
      }

      @Override
      public void onShutDown(ShutdownSignalException signal) {
        if (!signal.isInitiatedByApplication()) {
          reasons.add(signal.getMessage());
        }
      }
    };
  }

  /** Confirmed at once, delivered later, although everything is mandatory. */
  private static void delayed(Lab lab) throws Exception {
    if (!lab.node().restartable()) {
      throw new Skip("needs a plugin with another broker");
    }
    DirectExchange later = ExchangeBuilder.directExchange(lab.name("later")).delayed().build();
    Queue due = QueueBuilder.nonDurable(lab.name("due")).exclusive().build();
    lab.admin().declareExchange(later);
    lab.admin().declareQueue(due);
    lab.admin().declareBinding(BindingBuilder.bind(due).to(later).with("due"));
    for (long delayMillis : new long[] {300, 100}) {
      CorrelationData correlation = new CorrelationData();
      lab.template().convertAndSend(later.getName(), "due", "after " + delayMillis, message -> {
        message.getMessageProperties().setDelayLong(delayMillis);
        return message;
      }, correlation);
      Expect.that(confirm(correlation).ack(), "not confirmed");
      Expect.equal(null, correlation.getReturned(), "returned");
    }
    Expect.equal("after 100", new String(lab.receive("due").getBody()), "first");
    Message last = lab.receive("due");
    Expect.equal("after 300", new String(last.getBody()), "last");
    Expect.equal(300L, last.getMessageProperties().getReceivedDelayLong(), "received delay");
    lab.admin().deleteExchange(later.getName());
  }

  static CorrelationData.Confirm confirm(CorrelationData correlation) throws Exception {
    return correlation.getFuture().get(Expect.WAIT_SECONDS, TimeUnit.SECONDS);
  }
}
