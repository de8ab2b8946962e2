module leveret.example/interop

go 1.23.0

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/streadway/amqp v1.1.0
	leveret.example/amqp091-go-1.10 v1.10.0
	leveret.example/amqp091-go-1.14 v1.14.0
)

replace leveret.example/amqp091-go-1.10 => github.com/rabbitmq/amqp091-go v1.10.0

replace leveret.example/amqp091-go-1.14 => github.com/rabbitmq/amqp091-go v1.14.0
