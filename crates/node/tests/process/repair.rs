//! `leveret repair`: each kind of damage is refused by a node that names the way out; a dry run changes
//! nothing; after a repair the node serves everything that was not damaged, and the originals are beside.

use super::missing::{N_DEEP, N_OLDER, check_whole, data, expect_refusal, file_in, files};
use super::support::copy_dir;
use super::support::node::{Node, run_repair};
use std::path::Path;
use tempfile::TempDir;
use testing::client::Client;

/// Does damage to a data directory; the file that is named then.
type Damage = fn(&Path) -> String;

fn copy(whole: &Path) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    copy_dir(whole, &home.path().join("data"));
    home
}

fn remove(data: &Path, name: &str) -> String {
    let path = data.join(name);
    if path.is_dir() {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        std::fs::remove_file(path).unwrap();
    }
    name.to_owned()
}

fn segment(data: &Path, is_last: bool) -> String {
    file_in(data, "wal", ".wal", is_last).to_str().unwrap().to_owned()
}

fn flip(data: &Path, name: &str, at: usize) -> String {
    let mut bytes = std::fs::read(data.join(name)).unwrap();
    bytes[at] ^= 4;
    std::fs::write(data.join(name), bytes).unwrap();
    name.to_owned()
}

/// Cuts off what is behind the middle of what is written.
fn cut(data: &Path) -> String {
    let name = segment(data, true);
    let bytes = std::fs::read(data.join(&name)).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    let file = std::fs::File::options().write(true).open(data.join(&name)).unwrap();
    file.set_len(end as u64 / 2).unwrap();
    name
}

/// Message counts of the queues `deep`, `older`, `twice-1`, `twice-2`.
fn counts(node: &Node) -> [u32; 4] {
    let mut client = Client::guest(node.address());
    ["deep", "older", "twice-1", "twice-2"].map(|queue| client.declare(queue))
}

/// The damage is told and repaired; what the queues hold then.
fn check(whole: &Path, damage: Damage) -> [u32; 4] {
    let home = copy(whole);
    let dir = home.path().join("data");
    let named = damage(&dir);
    let home = expect_refusal(home, &named);
    let before = files(&dir);
    let dry = run_repair(&dir, &["--dry-run"]).unwrap();
    assert!(dry.contains(&named) && dry.contains("dry run"), "{dry}");
    assert!(files(&dir) == before, "a dry run changes nothing");
    let told = run_repair(&dir, &[]).unwrap();
    let entries = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let mut aside = entries.filter(|path| path.to_str().unwrap().contains("/damaged-"));
    let aside = aside.next().unwrap();
    for (path, bytes) in before {
        let name = path.strip_prefix(&dir).unwrap();
        let kept = std::fs::read(aside.join(name)).or_else(|_| std::fs::read(&path)).unwrap();
        assert!(
            kept == bytes || name.ends_with("leveret-format"),
            "{} is not kept",
            name.display()
        );
    }
    let mut node = Node::start_in(home);
    let held = counts(&node);
    eprintln!("{named}: {held:?} after\n{told}");
    let refused = run_repair(&dir, &[]).unwrap_err();
    assert!(refused.contains("another node is running"), "{refused}");
    node.stop_and_start();
    assert_eq!(counts(&node), held);
    node.end_well();
    assert!(run_repair(&dir, &[]).unwrap().contains("no damage"));
    held
}

#[test]
fn a_stopped_node_is_repaired_after_every_kind_of_damage() {
    let home = data(Node::end_well);
    let whole = home.path().join("data");
    assert!(run_repair(&whole, &[]).unwrap().contains("no damage"));
    let all = [N_DEEP, N_OLDER, 1, 1];
    let cases: [(Damage, [u32; 4]); 9] = [
        (|data| flip(data, &segment(data, false), 20_000), [N_DEEP - 100, N_OLDER, 1, 1]),
        (|data| flip(data, "definitions.snapshot", 5), all),
        (|data| flip(data, "leveret-log", 30) + &flip(data, "leveret-log", 542)[11..], all),
        (|data| remove(data, "leveret-log"), all),
        (|data| remove(data, "wal"), [0, N_OLDER, 0, 0]),
        (|data| remove(data, &segment(data, false)), [N_DEEP / 4, N_OLDER, 0, 0]),
        (|data| remove(data, &segment(data, true)), [N_DEEP / 4, N_OLDER, 0, 0]),
        (|data| remove(data, "pages/00000001.blob"), [0, N_OLDER, 0, 0]),
        (|data| remove(data, "queues"), [N_DEEP, 0, 1, 1]),
    ];
    for (damage, least) in cases {
        let held = check(&whole, damage);
        let is_enough = held.iter().zip(least).all(|(held, least)| *held >= least);
        assert!(is_enough, "{held:?}, not {least:?}");
    }
    check_whole(&Node::start_in(home));
}

/// A journal is not written anew: the start after the repair tells what is lost, and goes on without it.
#[test]
fn messages_whose_bodies_are_missing_are_told_of_and_go() {
    let home = data(Node::end_well);
    let dir = home.path().join("data");
    let named = remove(&dir, "vhosts/%2F/bodies/00000001.blob");
    let home = expect_refusal(home, &named);
    let told = run_repair(&dir, &[]).unwrap();
    assert!(told.contains("lost: queue 'older' in vhost '/': up to 1 messages\n"), "{told}");
    let mut node = Node::start_in(home);
    assert_eq!(counts(&node), [N_DEEP, N_OLDER - 1, 0, 0]);
    node.expect_logged(1, "1 messages are lost queue=older");
    std::fs::write(node.data_dir().join("node.log"), "").unwrap();
    node.stop_and_start();
    assert_eq!(counts(&node), [N_DEEP, N_OLDER - 1, 0, 0]);
    node.end_well();
    assert!(run_repair(&node.data_dir(), &[]).unwrap().contains("no damage"));
}

/// As after a `kill -9` between two renames: the originals of some files are beside, what replaces others
/// is not in place.
#[test]
fn a_repair_that_was_interrupted_is_told_and_repeated() {
    let home = data(Node::end_well);
    let dir = home.path().join("data");
    flip(&dir, &segment(&dir, false), 20_000);
    run_repair(&dir, &[]).unwrap();
    let is_aside = |name: &str| name.starts_with("damaged-");
    let names = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
    let aside = names.map(|name| name.into_string().unwrap()).find(|name| is_aside(name)).unwrap();
    let aside = dir.join(aside);
    std::fs::create_dir(aside.join("anew")).unwrap();
    std::fs::rename(dir.join("leveret-log"), aside.join("anew/leveret-log")).unwrap();
    let before = files(&dir);
    let home = expect_refusal(home, "leveret-log");
    for args in [&["--dry-run"][..], &[]] {
        let told = run_repair(&dir, args).unwrap_err();
        assert!(told.contains("an earlier repair was interrupted: move everything in "), "{told}");
        assert!(told.contains(aside.to_str().unwrap()), "{told}");
    }
    assert_eq!(files(&dir), before, "nothing is touched");
    std::fs::remove_dir_all(aside.join("anew")).unwrap();
    for entry in std::fs::read_dir(&aside).unwrap() {
        let name = entry.unwrap().file_name();
        if dir.join(&name).is_dir() {
            std::fs::remove_dir_all(dir.join(&name)).unwrap();
        }
        std::fs::rename(aside.join(&name), dir.join(&name)).unwrap();
    }
    std::fs::remove_dir(&aside).unwrap();
    assert!(run_repair(&dir, &[]).unwrap().contains("repaired; the original files are in "));
    let node = Node::start_in(home);
    assert!(counts(&node)[0] >= N_DEEP - 100);
}

#[test]
fn a_cut_tail_of_a_killed_node_is_told_and_repaired() {
    let home = data(Node::kill);
    let held = check(&home.path().join("data"), cut);
    assert!(held[1] == N_OLDER && held[0] >= N_DEEP / 2 && held[0] < N_DEEP, "{held:?}");
    check_whole(&Node::start_in(home));
}
