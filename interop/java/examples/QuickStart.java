import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

public final class QuickStart {
    public static void main(String[] args) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672"));
        try (Connection connection = factory.newConnection();
                Channel channel = connection.createChannel()) {
            boolean durable = true;
            channel.queueDeclare("hello", durable, false, false, Map.of());

            channel.confirmSelect();
            byte[] body = "Hello, hare!".getBytes(UTF_8);
            channel.basicPublish("", "hello", MessageProperties.PERSISTENT_BASIC, body);
            channel.waitForConfirmsOrDie(5_000); // the broker has the message on disk

            channel.basicQos(100);
            var done = new CountDownLatch(1);
            boolean autoAck = false;
            channel.basicConsume("hello", autoAck, (tag, delivery) -> {
                System.out.println(new String(delivery.getBody(), UTF_8));
                channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
                done.countDown();
            }, tag -> { });
            done.await();
        }
    }
}
