//! Disks that are full, slow, broken or forgetful: nothing confirmed is lost, nothing is delivered
//! damaged, and the node says what happened.

use super::durability::Proof;
use super::samples;
use super::support::copy_dir;
use super::support::faults::Fault;
use super::support::node::Node;
use super::support::random::Random;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Starts of nodes on flipped bits.
const N_FLIPS: usize = 24;

fn assert_told(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "\"{part}\" is not in \"{told}\"");
    }
}

/// The node ends by itself under full load, says why, and has lost nothing when it starts again.
fn fails_once(fault: Fault, parts: &[&str]) {
    let mut proof = Proof::start(Node::start_on_faulty_disk);
    for _ in 0..2 {
        proof.traffic(|node| {
            node.let_disk_fail(fault, "wal");
            let told = node.expect_failure();
            assert_told(&told, &["the log has failed: "]);
            assert_told(&told, parts);
        });
        proof.node.mend_disk(fault);
        proof.node.start_again();
        proof.check();
    }
}

#[test]
fn a_sync_that_fails_ends_the_node_and_loses_nothing_confirmed() {
    fails_once(Fault::SyncFails, &["cannot sync wal", "Input/output error"]);
}

#[test]
fn a_disk_without_space_ends_the_node_and_loses_nothing_confirmed() {
    fails_once(Fault::NoSpace, &[" wal/", "No space left on device"]);
}

#[test]
fn a_start_on_a_disk_that_fails_says_so_and_changes_nothing() {
    let mut proof = Proof::start(Node::start_on_faulty_disk);
    proof.traffic(Node::kill);
    for fault in [Fault::NoSpace, Fault::SyncFails, Fault::ReadFails] {
        proof.node.let_disk_fail(fault, "");
        let told = proof.node.try_start_again().unwrap_err();
        assert_told(&told, &["leveret: ", "(os error "]);
        proof.node.mend_disk(fault);
    }
    proof.node.start_again();
    proof.check();
    proof.node.stop();
}

#[test]
fn slow_syncs_only_take_longer() {
    let mut proof = Proof::start(Node::start_on_faulty_disk);
    proof.node.let_disk_fail(Fault::SlowSync, "");
    proof.traffic(Node::kill);
    proof.node.start_again();
    proof.check();
    proof.node.stop();
}

/// A copy of the sample of a node that was killed, and the one file of its log.
fn sample() -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    copy_dir(&samples::samples().join("format-1/killed"), &home.path().join("data"));
    let wal = home.path().join("data/wal");
    let file = std::fs::read_dir(wal).unwrap().next().unwrap().unwrap().path();
    (home, file)
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file).unwrap();
    change(&mut bytes);
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_the_log_is_told_with_its_place_or_does_no_harm() {
    let mut random = Random::new();
    let mut n_refused = 0;
    for _ in 0..N_FLIPS {
        let (home, file) = sample();
        // What follows the last sync is taken for a write that power was lost in.
        change(&file, |bytes| {
            let at = random.below(bytes.len() * 9 / 10);
            bytes[at] ^= 1 << random.below(8);
        });
        match Node::try_start_in(home) {
            Ok(node) => samples::check(&node, true),
            Err((_, told)) => {
                assert_told(&told, &["wal/00000000000000000001.wal is corrupt at byte "]);
                n_refused += 1;
            }
        }
    }
    assert!(n_refused > 0);
}

#[test]
fn a_write_that_power_was_lost_in_does_no_harm() {
    let mut random = Random::new();
    for n_bytes in [1, 100, 5000, 70_000] {
        let (home, file) = sample();
        let torn = random.bytes(n_bytes);
        change(&file, |bytes| bytes.extend_from_slice(&torn));
        let node = Node::start_in(home);
        samples::check(&node, true);
        node.stop();
    }
}
