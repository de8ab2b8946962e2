//! The tool with `amqps://`: the same messages, and whom it trusts.

use rustls::version::{TLS12, TLS13};
use serde_json::Value;

use super::broker::{Behaviour, Broker};
use super::tls::{Authority, Terminator};
use super::{outcome, tool};

fn uri(host: &str, port: u16) -> String {
    format!("amqps://{host}:{port}")
}

fn run(uri: &str, line: &str) -> (i32, Value, String) {
    let (code, mut lines, complaints) =
        outcome(tool().args(["-h", uri, "--json"]).args(line.split_whitespace()));
    (code, lines.pop().unwrap(), complaints)
}

#[test]
fn messages_of_all_sizes_arrive_whole() {
    let authority = Authority::new("any");
    for version in [&TLS12, &TLS13] {
        for line in [
            "-C 5000 -D 5000 -c 100 -q 50 -A 7 -s 100 --verify",
            // More than sockets take: bytes wait on both sides.
            "-C 40 -D 40 -z 60 -c 40 -s 300000 -tsbs 65536 -trbs 65536 --verify",
            // One consumer: with more, some might begin when others have had their share.
            "-x 3 -y 1 -X 2 -C 300 -D 1800 -s 20000 --verify",
        ] {
            let broker = Broker::start(Behaviour::Echo);
            let front = Terminator::start(broker.port(), &authority, "localhost", version);
            let (code, summary, complaints) = run(&uri("localhost", front.port), line);
            assert_eq!((code, complaints.as_str()), (0, ""), "{version:?} {line} {summary}");
            assert_eq!(summary["verify"]["good"], true, "{version:?} {line} {summary}");
            assert_eq!(summary["sent"], summary["received"], "{version:?} {line}");
        }
    }
}

#[test]
fn lost_connections_are_made_again() {
    let broker = Broker::start(Behaviour::Cut);
    let front = Terminator::start(broker.port(), &Authority::new("any"), "localhost", &TLS13);
    let line = "-C 5000 -D 3000 -c 100 -q 10 -cri 0 -z 60";
    let (code, summary, _) = run(&uri("127.0.0.1", front.port), line);
    assert_eq!((code, &summary["sent"]), (0, &5000.into()), "{summary}");
    assert_eq!(summary["connections_recovered"], 2, "{summary}");
}

#[test]
fn whom_it_trusts() {
    let broker = Broker::start(Behaviour::Echo);
    let (known, unknown) = (Authority::new("known"), Authority::new("unknown"));
    let trusted = known.file();
    let run = |port: u16, host: &str, line: &str| {
        let line = format!("-C 10 {line}");
        let mut command = tool();
        command.args(["-h", &uri(host, port), "--json"]).args(line.split_whitespace());
        let (code, mut lines, complaints) =
            outcome(command.env_remove("SSL_CERT_DIR").env("SSL_CERT_FILE", &trusted));
        (code, lines.pop().unwrap()["type"].clone(), complaints)
    };
    let good = |(code, kind, complaints): (i32, Value, String)| {
        assert_eq!((code, kind, complaints), (0, "summary".into(), String::new()));
    };
    let refused = |(code, kind, complaints): (i32, Value, String), why: &str| {
        assert_eq!((code, kind), (3, "error".into()), "{complaints}");
        assert!(complaints.contains("no connection to "), "{complaints}");
        assert!(complaints.contains(why), "{complaints}");
    };

    let stranger = Terminator::start(broker.port(), &unknown, "localhost", &TLS13);
    good(run(stranger.port, "localhost", ""));
    refused(run(stranger.port, "localhost", "-udsc"), "issued by nobody this system trusts");

    let friend = Terminator::start(broker.port(), &known, "broker.example", &TLS13);
    good(run(friend.port, "localhost", ""));
    refused(run(friend.port, "localhost", "-udsc"), "not valid for name \"localhost\"");
    good(run(friend.port, "localhost", "-udsc -sni broker.example"));
    assert_eq!(friend.asked().last().unwrap(), "broker.example");

    std::fs::remove_file(&trusted).unwrap();
    refused(run(friend.port, "localhost", "-udsc"), "this system trusts nobody: ");
}

#[test]
fn a_broker_without_tls_is_unreachable_with_it() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let greeting = std::thread::spawn(move || {
        let (mut socket, _) = silent.accept().unwrap();
        let mut hello = [0; 5];
        std::io::Read::read_exact(&mut socket, &mut hello).unwrap();
        std::io::Write::write_all(&mut socket, b"AMQP\0\0\x09\x01").unwrap();
        // Everything is taken, so that what was written is not lost in a reset.
        std::io::copy(&mut socket, &mut std::io::sink()).unwrap();
    });
    let (code, last, complaints) = run(&uri("127.0.0.1", port), "-C 1");
    assert_eq!((code, &last["type"]), (3, &"error".into()));
    assert!(complaints.contains("it does not speak TLS"), "{complaints}");
    greeting.join().unwrap();
}
