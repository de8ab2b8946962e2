module leveret.example/interop/amqp10

go 1.25.0

require (
	github.com/Azure/go-amqp v1.7.0
	github.com/rabbitmq/amqp091-go v1.16.0
	leveret.example/interop v0.0.0
)

// The harness is the Go suite's.
replace leveret.example/interop => ../go

replace leveret.example/amqp091-go-1.10 => github.com/rabbitmq/amqp091-go v1.10.0

replace leveret.example/amqp091-go-1.14 => github.com/rabbitmq/amqp091-go v1.14.0
