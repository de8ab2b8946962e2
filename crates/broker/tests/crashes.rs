//! What clients may be told around failures of the disk and restarts.
#![expect(clippy::unwrap_used, reason = "a test's helpers may panic")]
#![expect(clippy::indexing_slicing, reason = "a test's helpers may panic")]
#![expect(clippy::disallowed_methods, reason = "deadlines of tests need a clock")]
#![expect(dead_code, reason = "the client is made for all tests of this crate")]

#[path = "support/client.rs"]
mod client;

use client::{Client, Kind, start};
use log::{Fault, MemoryDisk, Survival};
use session::Op;
use std::sync::Arc;

/// Semantics 87: nobody had seen the message before the stop, somebody had before the crash.
#[test]
fn what_was_delivered_before_a_crash_comes_back_marked_also_after_a_clean_stop() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.ask(Op::ConfirmSelect);
    let heard = client.publish("q", &["a"], Kind::Persistent);
    client.wait_for(heard, 1);
    client.disconnect();
    broker.stop().unwrap();

    let disk = Arc::new(disk.survive(Survival::OnlySynced));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.consume("q", false), ["consuming", "deliver a"]);

    let disk = Arc::new(disk.survive(Survival::OnlySynced));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.consume("q", false), ["consuming", "deliver a again"]);
}

#[test]
fn nothing_is_reported_as_done_that_the_log_has_lost() {
    let failed = ["connection failed InternalError: the log has failed"];
    for failing in 0..2 {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start(&disk);
        let mut client = Client::connect(&broker);
        client.declare("q", true);
        client.ask(Op::TxSelect);
        client.publish("q", &["a"], Kind::Persistent);
        disk.inject(disk.operations(), Fault::Io);
        let heard = if failing == 0 { client.ask(Op::TxCommit) } else { client.declare("p", true) };
        assert_eq!(heard, failed);
        // Also once the failure is known.
        assert_eq!(Client::connect(&broker).declare("r", true), failed);
    }
}
