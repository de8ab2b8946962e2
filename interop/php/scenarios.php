<?php
// Scenarios of ../SCENARIOS.md with php-amqplib: LIBRARY HOST PORT [SCENARIO ...]

namespace Interop;

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

[, $library, $host, $port] = $argv;
$only = array_slice($argv, 4);
spl_autoload_register(function (string $class) use ($library): void {
    $file = $library . '/' . strtr($class, '\\', '/') . '.php';
    if (is_file($file)) {
        require $file;
    }
});

const DEADLINE_S = 20;

function equal(mixed $got, mixed $expected, string $what): void
{
    if ($got !== $expected) {
        throw new \Exception("$what: got " . json_encode($got) . ', expected ' . json_encode($expected));
    }
}

/** One scenario's connection, channel and queue. */
final class Lab
{
    public AMQPStreamConnection $connection;
    public \PhpAmqpLib\Channel\AMQPChannel $channel;
    public string $queue;

    public function __construct(private string $host, private int $port)
    {
        $this->connection = $this->connect();
        $this->channel = $this->connection->channel();
        $this->queue = 'interop.php.' . bin2hex(random_bytes(6));
    }

    public function connect(): AMQPStreamConnection
    {
        $timeouts = [10.0, (float) DEADLINE_S];
        return new AMQPStreamConnection(
            $this->host, $this->port, 'guest', 'guest', '/', false, 'AMQPLAIN', null, 'en_US', ...$timeouts
        );
    }

    public function declare(array $arguments = [], bool $durable = true): void
    {
        $this->channel->queue_declare($this->queue, false, $durable, false, false, false, new AMQPTable($arguments));
    }

    public function publish(string $body, array $properties = [], string $exchange = '', ?string $key = null): void
    {
        $this->channel->basic_publish(new AMQPMessage($body, $properties), $exchange, $key ?? $this->queue);
    }

    /** So many messages of a consumer, which is told of each. */
    public function consume(int $count, callable $told, bool $noAck = false, string $tag = ''): array
    {
        $messages = [];
        $given = function (AMQPMessage $message) use (&$messages, $told): void {
            $messages[] = $message;
            $told($message);
        };
        $tag = $this->channel->basic_consume($this->queue, $tag, false, $noAck, false, false, $given);
        while (count($messages) < $count) {
            $this->channel->wait(null, false, DEADLINE_S);
        }
        $this->channel->basic_cancel($tag);
        return $messages;
    }

    public function end(): void
    {
        $connection = $this->connect();
        $channel = $connection->channel();
        $channel->queue_delete($this->queue);
        $connection->close();
        if ($this->connection->isConnected()) {
            $this->connection->close();
        }
    }
}

function numbers(int $count): array
{
    return array_map('strval', range(0, $count - 1));
}

$scenarios = [
    'publish-confirm' => function (Lab $lab): void {
        $lab->declare();
        $confirmed = 0;
        $lab->channel->confirm_select();
        $lab->channel->set_ack_handler(function () use (&$confirmed): void {
            $confirmed++;
        });
        foreach (numbers(1000) as $body) {
            $lab->publish($body, ['delivery_mode' => 2]);
        }
        $lab->channel->wait_for_pending_acks(DEADLINE_S);
        equal($confirmed, 1000, 'confirms');
        [, $ready] = $lab->channel->queue_declare($lab->queue, true);
        equal($ready, 1000, 'ready');
    },
    'publish-batch' => function (Lab $lab): void {
        $lab->declare();
        foreach (numbers(200) as $body) {
            $lab->channel->batch_basic_publish(new AMQPMessage($body), '', $lab->queue);
        }
        $lab->channel->publish_batch();
        $bodies = array_map(fn($it) => $it->getBody(), $lab->consume(200, fn($it) => $it->ack()));
        equal($bodies, numbers(200), 'bodies');
    },
    'properties-and-headers' => function (Lab $lab): void {
        $lab->declare();
        $headers = ['text' => 'é', 'int' => -7, 'long' => 1 << 40, 'flag' => true, 'none' => null,
            'list' => [1, 'two', [3]], 'table' => ['nested' => ['k' => 'v']]];
        $properties = ['content_type' => 'text/plain', 'content_encoding' => 'utf-8', 'priority' => 3,
            'correlation_id' => 'c', 'reply_to' => 'r', 'expiration' => '60000', 'message_id' => 'm',
            'timestamp' => 1700000000, 'type' => 't', 'user_id' => 'guest', 'app_id' => 'a', 'delivery_mode' => 2];
        $lab->publish('body', $properties + ['application_headers' => new AMQPTable($headers)]);
        [$message] = $lab->consume(1, fn($it) => $it->ack());
        $got = $message->get_properties();
        $table = $got['application_headers']->getNativeData();
        unset($got['application_headers']);
        ksort($got);
        ksort($properties);
        ksort($table);
        ksort($headers);
        equal($got, $properties, 'properties');
        equal($table, $headers, 'headers');
    },
    'large-bodies' => function (Lab $lab): void {
        $lab->declare();
        foreach ([0, 1, 131072, 5_000_000] as $size) {
            $body = str_repeat('x', $size);
            $lab->publish($body);
            [$message] = $lab->consume(1, fn($it) => $it->ack());
            equal(md5($message->getBody()), md5($body), "$size bytes");
        }
    },
    'reject-and-redeliver' => function (Lab $lab): void {
        $lab->declare();
        $lab->publish('again');
        $settle = fn($it) => $it->isRedelivered() ? $it->reject(false) : $it->nack(true);
        $redelivered = array_map(fn($it) => $it->isRedelivered(), $lab->consume(2, $settle));
        equal($redelivered, [false, true], 'redelivered');
        [, $ready] = $lab->channel->queue_declare($lab->queue, true);
        equal($ready, 0, 'ready');
    },
    'prefetch' => function (Lab $lab): void {
        $lab->declare();
        foreach (numbers(10) as $body) {
            $lab->publish($body);
        }
        $held = [];
        $lab->channel->basic_qos(0, 3, false);
        $lab->channel->basic_consume($lab->queue, 't', false, false, false, false, function ($it) use (&$held): void {
            $held[] = $it;
        });
        while (count($held) < 3) {
            $lab->channel->wait(null, false, DEADLINE_S);
        }
        [, $ready] = $lab->channel->queue_declare($lab->queue, true);
        equal([$ready, count($held)], [7, 3], 'held');
        end($held)->ack(true);
        while (count($held) < 6) {
            $lab->channel->wait(null, false, DEADLINE_S);
        }
    },
    'get' => function (Lab $lab): void {
        $lab->declare();
        equal($lab->channel->basic_get($lab->queue), null, 'an empty queue');
        $lab->publish('one');
        $message = $lab->channel->basic_get($lab->queue, true);
        equal([$message->getBody(), $message->getMessageCount()], ['one', 0], 'message');
    },
    'mandatory-return' => function (Lab $lab): void {
        $returned = null;
        $lab->channel->set_return_listener(function (...$told) use (&$returned): void {
            $returned = array_slice($told, 0, 2);
        });
        $lab->channel->basic_publish(new AMQPMessage('x'), '', $lab->queue, true);
        while ($returned === null) {
            $lab->channel->wait(null, false, DEADLINE_S);
        }
        equal($returned, [312, 'NO_ROUTE'], 'return');
    },
    'exchanges' => function (Lab $lab): void {
        $lab->declare();
        $exchange = $lab->queue . '.x';
        $lab->channel->exchange_declare($exchange, 'topic', false, false, true);
        $lab->channel->queue_bind($lab->queue, $exchange, 'a.*');
        foreach (['a.b', 'b', 'a.c'] as $key) {
            $lab->publish($key, [], $exchange, $key);
        }
        $keys = array_map(fn($it) => $it->getRoutingKey(), $lab->consume(2, fn($it) => $it->ack()));
        equal($keys, ['a.b', 'a.c'], 'keys');
    },
    'dead-letters' => function (Lab $lab): void {
        $target = $lab->queue;
        $lab->declare();
        $lab->queue .= '.source';
        $lab->declare(['x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => $target, 'x-message-ttl' => 20]);
        $lab->publish('late');
        $source = $lab->queue;
        $lab->queue = $target;
        [$letter] = $lab->consume(1, fn($it) => $it->ack());
        $death = $letter->get('application_headers')->getNativeData()['x-death'][0];
        equal([$death['reason'], $death['queue'], $death['count']], ['expired', $source, 1], 'x-death');
        $lab->channel->queue_delete($source);
    },
    'transactions' => function (Lab $lab): void {
        $lab->declare();
        $lab->channel->tx_select();
        $lab->publish('kept');
        $lab->channel->tx_commit();
        $lab->publish('taken back');
        $lab->channel->tx_rollback();
        [$message] = $lab->consume(1, fn($it) => $it->ack());
        equal($message->getBody(), 'kept', 'body');
        $lab->channel->tx_commit();
    },
    'errors' => function (Lab $lab): void {
        $lab->declare(['x-max-length' => 5]);
        foreach ([404 => fn($it) => $it->queue_declare($lab->queue . '.none', true),
            406 => fn($it) => $it->queue_declare($lab->queue, false, true)] as $code => $fails) {
            $channel = $lab->connection->channel();
            $told = 0;
            try {
                $fails($channel);
            } catch (AMQPProtocolChannelException $error) {
                $told = $error->amqp_reply_code;
            }
            equal($told, $code, 'reply code');
        }
    },
    'quorum-queue' => function (Lab $lab): void {
        $lab->declare(['x-queue-type' => 'quorum', 'x-delivery-limit' => 1]);
        $lab->publish('q', ['delivery_mode' => 2]);
        $settle = fn($it) => $it->isRedelivered() ? $it->ack() : $it->nack(true);
        $redelivered = array_map(fn($it) => $it->isRedelivered(), $lab->consume(2, $settle));
        equal($redelivered, [false, true], 'redelivered');
    },
    'stream' => function (Lab $lab): void {
        $lab->declare(['x-queue-type' => 'stream']);
        foreach (numbers(50) as $body) {
            $lab->publish($body);
        }
        $lab->channel->basic_qos(0, 100, false);
        $bodies = [];
        $given = function (AMQPMessage $message) use (&$bodies): void {
            $bodies[] = $message->getBody();
            $message->ack();
        };
        $from = new AMQPTable(['x-stream-offset' => 'first']);
        $lab->channel->basic_consume($lab->queue, 's', false, false, false, false, $given, null, $from);
        while (count($bodies) < 50) {
            $lab->channel->wait(null, false, DEADLINE_S);
        }
        equal($bodies, numbers(50), 'bodies');
    },
];

[$passed, $failed] = [0, 0];
foreach ($scenarios as $id => $scenario) {
    if ($only && !in_array($id, $only, true)) {
        continue;
    }
    $started = microtime(true);
    try {
        $lab = new Lab($host, (int) $port);
        try {
            $scenario($lab);
        } finally {
            $lab->end();
        }
        printf("PASS php-amqplib %s (%.2f s)\n", $id, microtime(true) - $started);
        $passed++;
    } catch (\Throwable $error) {
        $why = get_class($error) . ': ' . strtr($error->getMessage(), "\n", ' ');
        echo "FAIL php-amqplib $id: $why at line {$error->getLine()}\n";
        $failed++;
    }
}
echo "$passed passed, $failed failed, 0 skipped\n";
exit($failed ? 1 : 0);
