//! Data that is missing keeps the node from starting: it names what, and touches nothing.

use super::support::copy_dir;
use super::support::node::{Node, run_repair};
use amqp091::method::QueueBind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use testing::client::Client;

pub(super) const N_DEEP: u32 = 800;
/// The messages of `deep` in one commit of the log at most.
const PER_COMMIT: u32 = 50;
pub(super) const N_OLDER: u32 = 40;

/// A node's data with something in every kind of file, in a log of two segments. `deep` and `older`
/// hold so many messages, `twice-1` and `twice-2` one each whose body they share. The first of `older` has a
/// reference to its body.
pub(super) fn data(end: fn(&mut Node)) -> TempDir {
    let mut node = Node::start(&["backlog_memory=0"]);
    node.ctl(&["set_policy", "older", "^older$", r#"{"queue-version":1}"#, "--apply-to", "queues"]);
    let mut client = Client::guest(node.address());
    client.select_confirms();
    for queue in ["deep", "older", "twice-1", "twice-2"] {
        client.declare(queue);
    }
    for queue in [b"twice-1", b"twice-2"] {
        let bind = QueueBind { queue, exchange: b"amq.fanout", ..QueueBind::default() };
        assert_eq!(client.ask(1, bind), "queue.bind-ok");
    }
    client.put_content("amq.fanout", "", 2, &[7; 9_000]);
    fill_deep(&mut client, 1);
    client.put_content("", "older", 2, &[3; 9_000]);
    (1..N_OLDER).for_each(|n| client.put_content("", "older", 2, &n.to_le_bytes()));
    client.wait_for_confirms();
    super::support::wait_until("pages are on disk", || node.bytes_in("pages") > 100_000);
    // In good order: a sync of pages that goes on is finished, and noted in the log.
    node.stop_and_start();
    let mut client = Client::guest(node.address());
    client.select_confirms();
    fill_deep(&mut client, 2);
    // One more commit: how far the one before was synced is noted by then.
    client.declare("last");
    end(&mut node);
    node.leave()
}

/// Publishes half of what `deep` holds, in parts that are in different commits of the log however busy the
/// machine is: damage to one of them leaves the others.
fn fill_deep(client: &mut Client, byte: u8) {
    for _ in 0..N_DEEP / 2 / PER_COMMIT {
        (0..PER_COMMIT).for_each(|_| client.put_content("", "deep", 2, &[byte; 1_000]));
        client.wait_for_confirms();
    }
}

/// All that is in it is there.
pub(super) fn check_whole(node: &Node) {
    let mut client = Client::guest(node.address());
    let counts = ["deep", "older", "twice-1", "twice-2"].map(|queue| client.declare(queue));
    assert_eq!(counts, [N_DEEP, N_OLDER, 1, 1]);
    assert_eq!(client.get("twice-2").unwrap().body.len(), 9_000);
    client.close();
}

/// Every file with its content, but for what a start says and locks.
pub(super) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if !["node.log", "leveret.lock"].iter().any(|name| path.ends_with(name)) {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The first file with this ending in a directory of the data, or the last.
pub(super) fn file_in(data: &Path, dir: &str, ending: &str, is_last: bool) -> PathBuf {
    let found = files(&data.join(dir)).into_keys();
    let mut found = found.filter(|path| path.to_str().unwrap().ends_with(ending));
    let path = if is_last { found.next_back() } else { found.next() }.unwrap();
    path.strip_prefix(data).unwrap().to_owned()
}

/// A copy of the data in which something is missing.
pub(super) fn without(whole: &Path, gone: &Path) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    copy_dir(whole, &home.path().join("data"));
    let gone = home.path().join("data").join(gone);
    if gone.is_dir() {
        std::fs::remove_dir_all(gone).unwrap();
    } else {
        std::fs::remove_file(gone).unwrap();
    }
    home
}

/// The node refuses, and says this; nothing is touched.
pub(super) fn expect_refusal(home: TempDir, told: &str) -> TempDir {
    let before = files(&home.path().join("data"));
    let Err((home, said)) = Node::try_start_in(home) else { panic!("it starts without {told}") };
    assert!(said.contains(told), "{told}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("leveret repair"), "{said}");
    std::fs::remove_file(home.path().join("stderr")).unwrap();
    assert!(files(&home.path().join("data")) == before, "touched without {told}");
    home
}

#[test]
fn what_is_missing_is_named_and_nothing_is_touched() {
    for end in [Node::kill as fn(&mut Node), Node::end_well] {
        let home = data(end);
        let whole = home.path().join("data");
        let mut gone: Vec<PathBuf> =
            ["wal", "pages", "queues", "leveret-log"].map(PathBuf::from).to_vec();
        gone.push(file_in(&whole, "wal", ".wal", false));
        gone.push(file_in(&whole, "queues", ".jif", false));
        gone.push(file_in(&whole, "pages", ".blob", false));
        gone.push(PathBuf::from("vhosts/%2F/bodies"));
        gone.push(gone[5].parent().unwrap().to_owned());
        for gone in gone {
            let named = match gone.to_str().unwrap() {
                "pages" => "pages/00000001.blob".to_owned(),
                "queues" => "queues/".to_owned(),
                other => other.to_owned(),
            };
            let refused = expect_refusal(without(&whole, &gone), &named);
            assert!(refused.path().exists());
            eprintln!("{}: refused", gone.display());
        }
        let newest = file_in(&whole, "wal", ".wal", true);
        expect_refusal(without(&whole, &newest), newest.to_str().unwrap());
        let mut node = Node::start_in(home);
        check_whole(&node);
        node.kill_and_start();
        check_whole(&node);
    }
}

/// As a damaged block would be: the node starts without what is lost, and says how much that is.
#[test]
fn the_end_of_a_journal_that_is_missing_is_told() {
    for end in [Node::kill as fn(&mut Node), Node::end_well] {
        let home = data(end);
        let data = home.path().join("data");
        let journal = file_in(&data, "queues", ".jif", false);
        let n_bytes = std::fs::metadata(data.join(&journal)).unwrap().len() - 32;
        std::fs::write(data.join(&journal), "").unwrap();
        let node = Node::start_in(home);
        let told = format!(
            "confirmed messages may be lost, or acknowledged ones redelivered: the end of {} is missing: \
             leveret-journals lists {n_bytes} synced bytes of blocks, 0 are left: {n_bytes} bytes",
            journal.display()
        );
        node.expect_logged(1, &told);
        let counted = format!("Unreadable blocks of version 1 queues: 1 of {n_bytes} bytes");
        assert!(node.ctl(&["status"]).contains(&counted), "{counted}");
        let mut client = Client::guest(node.address());
        let counts = ["deep", "older", "twice-1", "twice-2"].map(|queue| client.declare(queue));
        assert_eq!(counts, [N_DEEP, 0, 1, 1]);
    }
}

/// Bodies that pages alone name, in several files.
#[test]
fn one_of_several_files_of_bodies_is_missed() {
    let mut node = Node::start(&["backlog_memory=0"]);
    let mut client = Client::guest(node.address());
    client.select_confirms();
    for queue in ["twice-1", "twice-2"] {
        client.declare(queue);
        let bind =
            QueueBind { queue: queue.as_bytes(), exchange: b"amq.fanout", ..QueueBind::default() };
        assert_eq!(client.ask(1, bind), "queue.bind-ok");
    }
    for _ in 0..40 {
        client.put_content("amq.fanout", "", 2, &vec![7; 1_000_000]);
        client.wait_for_confirms();
    }
    node.stop_and_start();
    node.end_well();
    let home = node.leave();
    let whole = home.path().join("data");
    let bodies = files(&whole.join("vhosts/%2F/bodies"));
    assert!(bodies.len() >= 3, "{:?}", bodies.keys());
    for body in bodies.keys() {
        let gone = body.strip_prefix(&whole).unwrap();
        expect_refusal(without(&whole, gone), &format!("{} is missing", gone.display()));
    }
    let gone = bodies.keys().nth(1).unwrap().strip_prefix(&whole).unwrap();
    let home = without(&whole, gone);
    let dir = home.path().join("data");
    let dry = run_repair(&dir, &["--dry-run"]).unwrap();
    assert!(dry.contains(&format!("{} is missing", gone.display())), "{dry}");
    run_repair(&dir, &[]).unwrap();
    assert!(run_repair(&dir, &[]).unwrap().contains("no damage"));
    let node = Node::start_in(home);
    let mut client = Client::guest(node.address());
    let mut n_lost = 0;
    for queue in ["twice-1", "twice-2"] {
        let n_got = std::iter::from_fn(|| client.get(queue)).count();
        n_lost += 40 - n_got;
        assert!((1..40).contains(&n_got), "{n_got}");
    }
    let told = format!("Lost messages: {n_lost}\n");
    assert!(node.ctl(&["status"]).contains(&told), "{told}: {}", node.ctl(&["status"]));
    let is_told = || node.log().lines().filter(|line| line.contains(" are lost: ")).count();
    super::support::wait_until("the losses are told", || is_told() >= 2);
    assert!(is_told() <= 8, "a line for each queue and file: {}", node.log());
}

#[test]
fn files_of_another_node_are_refused() {
    let (home, other) = (data(Node::end_well), data(Node::end_well));
    for dir in ["wal", "pages", "definitions.snapshot"] {
        let mixed = without(&home.path().join("data"), Path::new(dir));
        let (from, to) = (other.path().join("data").join(dir), mixed.path().join("data").join(dir));
        if from.is_dir() {
            copy_dir(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
        expect_refusal(mixed, "another log");
    }
}
