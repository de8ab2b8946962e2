use super::*;

fn config(line: &str) -> Result<Config, Usage> {
    Config::new(&crate::options::parse(line.split_whitespace().map(str::to_owned))?)
}

#[test]
fn without_options_it_is_what_perftest_does() {
    let Config { brokers, link, topology, publishing, consuming, message, run, links: _ } =
        config("").unwrap();
    assert_eq!((brokers[0].host.as_str(), brokers[0].port), ("localhost", 5672));
    assert_eq!((link.heartbeat_s, link.frame_max, link.no_delay), (0, 0, true));
    assert_eq!((topology.exchange.as_str(), topology.exchange_type.as_str()), ("direct", "direct"));
    assert_eq!(topology.queues, Queues::Unnamed);
    assert!(topology.auto_delete && !topology.durable && topology.bind);
    assert_eq!((publishing.n_connections, publishing.n_channels), (1, 1));
    assert!(publishing.rate.is_none() && publishing.confirm_window.is_none());
    assert_eq!(consuming.settle, Settle::Ack { every: 1 });
    assert_eq!((consuming.prefetch, consuming.prefetch_channel), (0, 0));
    assert_eq!(message.body, Body::Stamped(Schedule::constant(12.0)));
    assert_eq!((run.interval_ns, run.time_ns, run.format), (SECOND, None, Format::Default));
}

#[test]
fn the_options_of_the_classic_queue_measurements() {
    let all = config(
        "-x5 -y5 -r10000 -c500 -qp fivers-%02d -qpf 1 -qpt 5 -qa x-max-length=1000000,x-y=true \
         -ad false -f persistent -s 5000 -q 300 -z 300",
    );
    let all = all.unwrap();
    let Queues::Sequence(queues) = &all.topology.queues else { panic!("named") };
    assert_eq!((queues.len(), queues[4].as_str()), (5, "fivers-05"));
    let arguments = &all.topology.queue_arguments;
    assert_eq!(arguments.get(b"x-max-length").and_then(Value::as_i64), Some(1_000_000));
    assert_eq!(arguments.get(b"x-y").and_then(Value::as_bool), Some(true));
    assert!(!all.topology.auto_delete && all.topology.durable && all.message.persistent);
    assert_eq!(all.publishing.rate, Some(Schedule::constant(10_000.0)));
    assert_eq!(all.publishing.confirm_window.map(NonZeroU32::get), Some(500));
    assert_eq!((all.consuming.prefetch, all.run.time_ns), (300, Some(300 * SECOND)));
}

#[test]
fn settling_rates_and_steps() {
    assert_eq!(config("-a -A 5").unwrap().consuming.settle, Settle::Automatic);
    assert_eq!(config("-A 5").unwrap().consuming.settle, Settle::Ack { every: 5 });
    let nack = Settle::Nack { every: 1, requeue: false };
    assert_eq!(config("-na -re false").unwrap().consuming.settle, nack);
    let held = |line| config(line).unwrap().consuming.hold;
    assert_eq!(held("-R 1000"), Some(Schedule::constant(1e6)));
    assert_eq!(held("-L 50"), Some(Schedule::constant(50_000.0)));
    assert_eq!(held("-vl 50:1 -vl 0:2").unwrap().at(0), (50_000.0, SECOND));
    assert_eq!((held("-L 0"), held("-R -1"), held("")), (None, None, None));
    let both = held("-R 1000 -vl 50:1 -vl 2000:2").unwrap();
    assert_eq!((both.at(0), both.at(SECOND)), ((1e6, SECOND), (2e6, 3 * SECOND)));
    assert_eq!(held("-R 1000 -L 2000"), Some(Schedule::constant(2e6)));
    let rate = |line| config(line).unwrap().publishing.rate;
    assert_eq!(rate("-P 0.5"), Some(Schedule::constant(2.0)));
    assert_eq!(rate("-vr 5:1 -r 9"), Schedule::of(&[(5, 1)]));
    assert_eq!(
        config("-s 3 --verify").unwrap().message.body,
        Body::Stamped(Schedule::constant(32.0))
    );
}

#[test]
fn truth_and_timeouts_as_perftest_reads_them() {
    assert!(!config("-ad False").unwrap().topology.auto_delete);
    let timeout = |line| config(line).unwrap().publishing.confirm_timeout_ns;
    assert_eq!([timeout(""), timeout("-ct 2")], [30 * SECOND, 2 * SECOND]);
    assert_eq!([timeout("-ct -1"), timeout("-ct 0")], [u64::MAX, 0]);
    let own = std::process::id();
    assert_eq!(config(&format!("--broker-pid {own}")).unwrap().run.broker_pid, Some(own));
}

#[test]
fn kinds_of_queues() {
    let typed = config("-sq -ma P1DT2H3S -mlb 2gb").unwrap().topology;
    assert!(typed.durable && !typed.auto_delete);
    let text = |name: &[u8]| typed.queue_arguments.get(name).and_then(Value::as_bytes);
    assert_eq!(text(b"x-queue-type"), Some(&b"stream"[..]));
    assert_eq!(text(b"x-max-age"), Some(&b"93603s"[..]));
    let numbers = |name: &[u8]| typed.queue_arguments.get(name).and_then(Value::as_i64);
    assert_eq!(numbers(b"x-max-length-bytes"), Some(2_000_000_000));
    assert_eq!(numbers(b"x-stream-max-segment-size-bytes"), Some(500_000_000));
    assert_eq!(config("-sq").unwrap().consuming.prefetch, 200);
    assert_eq!(config("-sq -mlb 0").unwrap().topology.queue_arguments.len(), 2);
    let fanout = config("-t fanout").unwrap().topology;
    assert_eq!((fanout.exchange.as_str(), fanout.exchange_type.as_str()), ("fanout", "fanout"));
    assert_eq!(config("-e amq.default").unwrap().topology.exchange, "");
    let words = config("-qa x-dead-letter-exchange=amq.default,x-single-active-consumer=true,k");
    let words = words.unwrap().topology.queue_arguments;
    assert_eq!(words.get(b"x-dead-letter-exchange").and_then(Value::as_bytes), Some(&b""[..]));
    assert_eq!(words.get(b"x-single-active-consumer").and_then(Value::as_bool), Some(true));
    assert_eq!(words.get(b"k").and_then(Value::as_bytes), Some(&b""[..]));
    assert_eq!(
        config("-u a,b").unwrap().topology.queues,
        Queues::Named(vec!["a".into(), "b".into()])
    );
}

#[test]
fn lost_connections_are_made_again_unless_they_are_not_to_be() {
    let interval = |line| config(line).unwrap().run.recovery_ns;
    assert_eq!(interval(""), Some((5 * SECOND, 5 * SECOND)));
    assert_eq!(interval("-cri 0.5-2"), Some((SECOND / 2, 2 * SECOND)));
    assert_eq!(interval("-dcr"), None);
    assert!(config("-c 1 -f persistent -ad false").unwrap().outlives_connections());
    for line in ["-c 1 -f persistent", "-c 1 -f persistent -ad false -a", "-c 1 -ad false"] {
        assert!(!config(line).unwrap().outlives_connections(), "{line}");
    }
}

#[test]
fn messages_end_intervals_where_one_thread_counts_them() {
    let every = |line| config(line).unwrap().run.interval_messages.map(NonZeroU64::get);
    assert_eq!((every(""), every("--interval-messages 10 --threads 1")), (None, Some(10)));
    assert_eq!(every("--interval-messages 10 --threads 2 -y 0"), Some(10), "of one connection");
}

#[test]
fn whom_tls_trusts_and_asks_for() {
    let encryption = |line| config(line).unwrap().link.encryption;
    assert_eq!((encryption("").trust, encryption("").server_name), (Trust::Everyone, None));
    assert_eq!(encryption("-udsc").trust, Trust::System);
    let asked = encryption("-sni broker.example").server_name.unwrap();
    assert_eq!(asked.to_str(), "broker.example");
}

#[test]
fn contradictions_and_nonsense_are_refused() {
    for line in [
        "-x x",
        "-x 0 -y 0",
        "-f fast",
        "-qp q-%d",
        "-qp q -qpf 1 -qpt 2",
        "-qp q%d -qpf 3 -qpt 2",
        "-ew never",
        "-mf odd",
        "-c 0",
        "-q 5 -A 6",
        "-P 0.01",
        "-P 1 -r 5",
        "-P 1 -vr 5:1",
        "-qpf 1 -qpt 2",
        "-u q -qpt 2",
        "-z nan",
        "--broker-pid 4294967295",
        "-sq -qq",
        "-sq -mlb 100mb",
        "-mlb much",
        "-ll somewhere",
        "-sco soon",
        "-cal anyhow",
        "-cri 9-3",
        "-vr 5",
        "-vr 5:0",
        "-P 0",
        "-h http://x",
        "--verify -B file",
        "--verify -na -re false",
        "-qf /nonexistent/file",
        "-sq -ma 5m",
        "-ad perhaps",
        "-X 70000",
        "-sni a.example,b.example",
        "-sni a/b",
        "--interval-messages 0",
        "--interval-messages 10 --threads 2",
    ] {
        assert!(config(line).is_err(), "{line}");
    }
}
