package main

// expected is what one measurement has: fields that grow with the traffic, and fields that may be zero.
type expected struct {
	tags     map[string]string // those by which the point is found
	positive string
	others   string
}

var overview = expected{
	positive: "amqp_listeners channels connections consumers exchanges messages messages_acked messages_delivered " +
		"messages_delivered_get messages_published messages_ready messages_unacked queues return_unroutable " +
		"return_unroutable_rate",
	others: "clustering_listeners",
}

// Nothing here stands behind collections of garbage, Mnesia or most parts of an Erlang machine's memory.
var node = expected{
	positive: "disk_free disk_free_limit fd_total fd_used io_write_bytes io_write_bytes_rate mem_limit mem_other_proc " +
		"mem_queue_procs mem_total mem_used proc_total proc_used running sockets_total sockets_used uptime",
	others: "disk_free_alarm gc_bytes_reclaimed gc_bytes_reclaimed_rate gc_num gc_num_rate io_read_avg_time " +
		"io_read_avg_time_rate io_read_bytes io_read_bytes_rate io_write_avg_time io_write_avg_time_rate mem_alarm " +
		"mem_allocated_unused mem_atom mem_binary mem_code mem_connection_channels mem_connection_other " +
		"mem_connection_readers mem_connection_writers mem_metrics mem_mgmt_db mem_mnesia mem_msg_index mem_other_ets " +
		"mem_other_system mem_plugins mem_queue_slave_procs mem_reserved_unallocated mnesia_disk_tx_count " +
		"mnesia_disk_tx_count_rate mnesia_ram_tx_count mnesia_ram_tx_count_rate run_queue",
}

const (
	flowing = "consumers consumer_utilisation messages_ack messages_ack_rate messages_deliver messages_deliver_rate " +
		"messages_deliver_get messages_deliver_get_rate messages_publish messages_publish_rate"
	waiting = "memory message_bytes message_bytes_ram message_bytes_ready message_bytes_unacked messages messages_ready " +
		"messages_unack"
	never = "idle_since message_bytes_persist slave_nodes synchronised_slave_nodes"
	again = "messages_redeliver messages_redeliver_rate"
)

// RabbitMQ's lists have no head_message_timestamp.
var queues = []expected{
	{tags: queue("classic", "classic"), positive: flowing + " " + waiting, others: again + " " + never},
	{tags: queue("quorum", "quorum"), positive: flowing, others: waiting + " " + again + " " + never},
	{tags: queue("again", "classic"), positive: again, others: flowing + " " + waiting + " " + never},
}

func queue(name, kind string) map[string]string {
	return map[string]string{
		"queue": "telegraf." + name, "type": kind, "vhost": "/", "durable": "true", "auto_delete": "false",
	}
}

var exchange = expected{
	tags: map[string]string{
		"exchange": "direct", "type": "direct", "vhost": "/", "durable": "true", "auto_delete": "false",
		"internal": "false",
	},
	positive: "messages_publish_in messages_publish_in_rate messages_publish_out messages_publish_out_rate",
}
