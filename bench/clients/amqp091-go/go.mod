module leveret.example/bench

go 1.23.0

require github.com/rabbitmq/amqp091-go v1.16.0
