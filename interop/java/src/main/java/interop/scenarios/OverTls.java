package interop.scenarios;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultSaslConfig;
import interop.harness.Node;
import interop.harness.Tls;
import java.util.Arrays;

/** The scenarios of interop/TLS.md. */
final class OverTls {
  private OverTls() {}

  static void run(Node node, String id, Tls.Case connect) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost("localhost");
    factory.setPort(Tls.port("INTEROP_TLS_PORT"));
    factory.useSslProtocol(connect.context());
    factory.enableHostnameVerification();
    if (connect.external()) {
      factory.setSaslConfig(DefaultSaslConfig.EXTERNAL);
    }
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.confirmSelect();
      String queue = channel.queueDeclare().getQueue();
      channel.basicPublish("", queue, null, Tls.BODY);
      channel.waitForConfirmsOrDie(10_000);
      byte[] body = channel.basicGet(queue, true).getBody();
      Check.that(Arrays.equals(Tls.BODY, body), "another body");
    }
  }
}
