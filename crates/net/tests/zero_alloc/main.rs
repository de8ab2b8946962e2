//! The allocations of a message on its whole way: decoded, routed, queued, delivered, acknowledged,
//! confirmed.

#[cfg(test)]
mod client;
#[cfg(test)]
mod flow;

#[cfg(test)]
mod tests {
    use crate::flow::{Taken, Workload};
    use amqp091::{Properties, ShortString, Table};
    use counting::Tally;

    #[global_allocator]
    static ALLOCATOR: counting::Allocator = counting::Allocator;

    /// Not one allocation per message. Something is allocated now and then all the same: a list
    /// finds its size again after its page went to another queue, once for the dozens of messages
    /// in a page at worst, a log segment is opened, a commit gathers more than any before it. How
    /// often depends on how the threads meet, so a twentieth of an allocation per message is let
    /// pass; the least real cost is a whole one.
    fn allocates_nothing_per_message(workload: &Workload) {
        let Tally { n_allocations, n_bytes } = workload.allocates();
        let (name, n_messages) = (workload.name, workload.n_messages());
        assert!(
            n_allocations < n_messages / 20,
            "{name}: {n_allocations} allocations ({n_bytes} bytes) for {n_messages} messages"
        );
    }

    fn persistent() -> Properties {
        Properties { delivery_mode: Some(2), ..Properties::default() }
    }

    fn with_headers() -> Properties {
        let mut headers = Table::new();
        headers.push(ShortString::from_static("attempt"), 1_i64);
        Properties { headers: Some(headers), ..Properties::default() }
    }

    const ACKED: Taken = Taken::Acked { prefetch: 0 };
    /// Far below what comes in one read: the rest goes to the queue's pages and is delivered from
    /// there.
    const FEW_AT_A_TIME: Taken = Taken::Acked { prefetch: 50 };

    #[test]
    fn a_transient_message_allocates_nothing_on_its_way() {
        for workload in [
            Workload::default(),
            Workload { name: "acked", taken: ACKED, ..Workload::default() },
            Workload { name: "confirmed", confirmed: true, taken: ACKED, ..Workload::default() },
            Workload { name: "queued", taken: FEW_AT_A_TIME, ..Workload::default() },
            Workload { name: "eight queues", n_queues: 8, ..Workload::default() },
            Workload {
                name: "fan-out",
                n_queues: 8,
                fan_out: true,
                taken: ACKED,
                ..Workload::default()
            },
            Workload { name: "headers", properties: with_headers(), ..Workload::default() },
            Workload { name: "1500 bytes", body_bytes: 1500, ..Workload::default() },
        ] {
            allocates_nothing_per_message(&workload);
        }
    }

    #[test]
    fn a_confirm_after_consuming_allocates_nothing() {
        for confirm_on in ["ack", "ack-direct"] {
            let confirmed =
                Workload { name: confirm_on, confirmed: true, confirm_on, ..Workload::default() };
            for taken in [Taken::AutoAck, ACKED, FEW_AT_A_TIME] {
                allocates_nothing_per_message(&Workload { taken, ..confirmed.clone() });
            }
            let persistent = Workload { durable: true, properties: persistent(), ..confirmed };
            allocates_nothing_per_message(&Workload { taken: ACKED, ..persistent });
        }
    }

    #[test]
    fn a_persistent_message_allocates_nothing_on_its_way() {
        let one = Workload {
            name: "persistent",
            durable: true,
            confirmed: true,
            taken: FEW_AT_A_TIME,
            properties: persistent(),
            ..Workload::default()
        };
        let fan_out =
            Workload { name: "persistent fan-out", n_queues: 8, fan_out: true, ..one.clone() };
        let eight = Workload { name: "persistent, eight queues", n_queues: 8, ..one.clone() };
        for workload in [one, eight, fan_out] {
            allocates_nothing_per_message(&workload);
        }
    }

    /// A message for many queues is kept once, and its delivery names what is kept: each queue
    /// adds its place in the order and the frames around the body, which take a hundred bytes or
    /// two.
    #[test]
    fn a_body_for_a_hundred_queues_is_not_copied() {
        const BODY_BYTES: usize = 64 * 1024;
        let waiting = Workload {
            name: "waiting",
            n_queues: 100,
            fan_out: true,
            taken: Taken::Not,
            body_bytes: BODY_BYTES,
            batch: 5,
            n_rounds: 8,
            ..Workload::default()
        };
        let consumed = Workload { name: "consumed", taken: ACKED, ..waiting.clone() };
        for workload in [waiting, consumed] {
            let Tally { n_allocations, n_bytes } = workload.allocates();
            let (name, n_messages) = (workload.name, workload.n_messages());
            assert!(n_bytes >= n_messages * BODY_BYTES as u64, "{name}: kept nowhere");
            assert!(
                n_bytes < 2 * n_messages * BODY_BYTES as u64,
                "{name}: {n_bytes} bytes in {n_allocations} allocations for {n_messages} messages"
            );
        }
    }
}
