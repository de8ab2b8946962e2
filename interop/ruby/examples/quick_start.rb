require 'bunny'

connection = Bunny.new(ENV.fetch('AMQP_URL', 'amqp://guest:guest@localhost:5672')).start
channel = connection.create_channel
queue = channel.queue('hello', durable: true)

channel.confirm_select
queue.publish('Hello, hare!', persistent: true)
channel.wait_for_confirms # the broker has the message on disk

channel.prefetch(100)
done = Thread::Queue.new
queue.subscribe(manual_ack: true) do |delivery, _properties, body|
  puts body
  channel.ack(delivery.delivery_tag)
  done << true
end
done.pop # wait for the one message
connection.close
