<?php
require 'vendor/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672');
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass']);
$channel = $connection->channel();
$channel->queue_declare('hello', durable: true, auto_delete: false);

$channel->confirm_select();
$persistent = ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT];
$channel->basic_publish(new AMQPMessage('Hello, hare!', $persistent), '', 'hello');
$channel->wait_for_pending_acks(5); // the broker has the message on disk

$channel->basic_qos(0, 100, false);
$channel->basic_consume('hello', callback: function (AMQPMessage $message): void {
    echo $message->getBody(), "\n";
    $message->ack();
    $message->getChannel()->basic_cancel($message->getConsumerTag());
});
while ($channel->is_consuming()) {
    $channel->wait();
}
$channel->close();
$connection->close();
