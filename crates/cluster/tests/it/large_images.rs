//! Images that are too large for the log: written, found again, sent, replaced, and what is left of them.

use std::collections::BTreeSet;

use bytes::Bytes;
use cluster::{
    GroupEffects, GroupRequest, GroupStep, Health, IMAGE_IN_LOG_BYTES_MAX, IMAGES_DIR, MessageBody,
    PIECE_BYTES, RaftGroup, Ticket,
};
use segments::Disk as _;
use testing::{CrashOutcome, Fault};

use crate::groups::{ME, Node, OTHER, OWNER, append, bodies, give_piece, offer, offered};

/// A machine's bytes, which differ by `seed`.
fn large(seed: u8) -> Bytes {
    let n = IMAGE_IN_LOG_BYTES_MAX + PIECE_BYTES + 7;
    (0..n).map(|at| seed ^ (at / 1000).to_le_bytes()[0]).collect()
}

fn file(index: u64) -> String {
    format!("{IMAGES_DIR}/{:016x}-{:016x}-{index:016x}.image", OWNER.0, ME.0)
}

fn files(node: &Node) -> Vec<String> {
    let names = node.disk.files().into_iter().map(|(name, _)| name);
    names.filter(|name| name.starts_with(IMAGES_DIR)).collect()
}

fn write(node: &Node, group: &mut RaftGroup, mut fx: GroupEffects) -> GroupEffects {
    let written = fx.write.take().unwrap().write(&node.images, &node.wal);
    group.image_written(written, node.cx())
}

fn propose(node: &Node, group: &mut RaftGroup) -> u64 {
    node.step(group, GroupStep::Propose(Ticket(1), Bytes::from_static(b"x")));
    group.progress().applied
}

/// A replica alone that has an image at index 2, and the image.
fn alone(node: &mut Node) -> (RaftGroup, Bytes) {
    let mut group = node.create(&[ME]);
    let (index, machine) = (propose(node, &mut group), large(1));
    let fx = group.take_image(index, machine.clone(), Bytes::from_static(b"local"), node.cx());
    assert_eq!((group.progress().image, files(node).len()), (1, 0));
    write(node, &mut group, fx);
    assert_eq!((group.progress().image, files(node)), (2, vec![file(2)]));
    node.commit();
    (group, machine)
}

#[test]
fn a_large_image_is_found_again_and_replaced_when_the_next_is_durable() {
    let mut node = Node::new();
    let (_, machine) = alone(&mut node);
    let (mut node, mut group) = node.restart(CrashOutcome::OnlySynced);
    node.step(&mut group, GroupStep::Durable);
    let index = propose(&node, &mut group);
    let fx = group.take_image(index, large(2), Bytes::new(), node.cx());
    write(&node, &mut group, fx);
    node.images.sweep(&node.wal).unwrap();
    assert_eq!(files(&node), [file(2), file(3)], "the entry is not durable");
    // A crash now brings the old image back.
    let (old, found) = Node::open(node.disk.survive(CrashOutcome::OnlySynced));
    let mut found = found.finish(&old.wal, &old.images).pop().unwrap();
    let image = found.read_image(&old.wal, &old.images).unwrap();
    assert_eq!((image.index, &image.machine, &*image.local), (2, &machine, &b"local"[..]));
    assert_eq!(files(&old), [file(2), file(3)], "nothing replaces what is newer");
    node.commit();
    node.images.sweep(&node.wal).unwrap();
    assert_eq!(files(&node), [file(3)]);
    // An image in the log replaces it too.
    let index = propose(&node, &mut group);
    group.take_image(index, Bytes::from_static(b"small"), Bytes::new(), node.cx());
    node.commit();
    let (node, group) = node.restart(CrashOutcome::OnlySynced);
    assert_eq!((group.progress().image, files(&node).len()), (index, 0));
}

#[test]
fn an_image_moves_with_its_entry() {
    let mut node = Node::new();
    let (mut group, machine) = alone(&mut node);
    let oldest = node.wal.stats().oldest.unwrap().id;
    let mut fx = GroupEffects::default();
    assert!(group.relocate(&node.wal, oldest, &mut fx));
    node.commit();
    let (node, found) = Node::open(node.disk.survive(CrashOutcome::OnlySynced));
    let mut found = found.finish(&node.wal, &node.images).pop().unwrap();
    let image = found.read_image(&node.wal, &node.images).unwrap();
    assert_eq!((image.machine, &*image.local), (machine, &b"local"[..]));
}

#[test]
fn a_damaged_file_damages_the_replica_until_it_has_an_image() {
    for is_lost in [false, true] {
        let mut node = Node::new();
        alone(&mut node);
        if is_lost {
            node.disk.remove(&file(2)).unwrap();
        } else {
            assert!(node.disk.flip_bit(&file(2), 5000, 3));
        }
        let (mut node, found) = Node::open(node.disk.survive(CrashOutcome::Everything));
        let mut found = found.finish(&node.wal, &node.images).pop().unwrap();
        assert_eq!(found.read_image(&node.wal, &node.images), None);
        let mut group = RaftGroup::recover(&node.wal, found);
        assert_eq!(group.health(), Health::Damaged(2));
        let machine = Bytes::from_static(b"m");
        offer(&node, &mut group, &machine);
        give_piece(&node, &mut group, &machine, 0);
        assert_eq!(group.health(), Health::Sound);
        node.commit();
    }
}

#[test]
fn files_of_removed_replicas_go_and_others_stay() {
    let mut node = Node::new();
    let (group, _) = alone(&mut node);
    let other = file(2).replacen("03-", "04-", 1);
    let draft = format!("{}.tmp", file(2));
    for name in [&other, &draft] {
        segments::File::create(&node.disk, name).unwrap();
    }
    let n_live = |node: &Node| node.wal.stats().oldest.unwrap().live;
    group.remove(&node.wal, &node.images);
    node.images.sweep(&node.wal).unwrap();
    assert_eq!(files(&node).len(), 3, "the end is not durable");
    node.commit();
    assert_eq!(n_live(&node), 1, "the end is kept");
    let (again, found) = Node::open(node.disk.survive(CrashOutcome::Everything));
    assert!(found.finish(&again.wal, &again.images).is_empty());
    assert_eq!(files(&again), [other.as_str()]);
    assert_eq!(again.images.unclaimed(&BTreeSet::new()), [other]);
    node.images.sweep(&node.wal).unwrap();
    assert_eq!(n_live(&node), 0, "the end is of no use any more");
}

#[test]
fn a_file_is_written_without_the_group_and_dropped_if_it_is_late() {
    let mut node = Node::new();
    let mut group = node.create(&[ME]);
    let index = propose(&node, &mut group);
    let fx = group.take_image(index, large(1), Bytes::new(), node.cx());
    let written = fx.write.unwrap().write(&node.images, &node.wal);
    let index = propose(&node, &mut group);
    assert!(group.take_image(index, large(2), Bytes::new(), node.cx()).write.is_none());
    group.take_image(index, Bytes::from_static(b"small"), Bytes::new(), node.cx());
    group.image_written(written, node.cx());
    assert_eq!(group.progress().image, index);
    node.commit();
    node.images.sweep(&node.wal).unwrap();
    assert!(files(&node).is_empty());
}

/// Gives a follower the pieces of an image, up to the last.
fn give(node: &Node, group: &mut RaftGroup, machine: &Bytes) -> GroupEffects {
    let offsets = (0..machine.len()).step_by(PIECE_BYTES);
    let given = offsets.map(|offset| give_piece(node, group, machine, offset));
    given.last().unwrap()
}

#[test]
fn an_installed_file_is_durable_before_its_entry_and_ends_entries_above_it() {
    let mut node = Node::new();
    let mut group = node.create(&[ME, OTHER]);
    node.hear(&mut group, OTHER, 2, append([1, 1], 1, &[2; 20]));
    node.commit();
    let machine = large(3);
    offer(&node, &mut group, &machine);
    let fx = give(&node, &mut group, &machine);
    assert_eq!((group.progress().image, &fx.restored), (1, &None));
    // A file that does not fit is written again later.
    node.disk.inject(node.disk.operations() + 3, Fault::NoSpace);
    let fx = write(&node, &mut group, fx);
    assert_eq!((&*fx.requests, fx.restored), (&[GroupRequest::TickLater][..], None));
    let fx = node.step(&mut group, GroupStep::Tick);
    let fx = write(&node, &mut group, fx);
    assert_eq!(fx.restored.unwrap().machine, machine);
    assert!(fx.messages[0].after > Some(node.wal.durable_upto()), "the answer waits for the disk");
    let (old, found) = Node::open(node.disk.survive(CrashOutcome::OnlySynced));
    let found = found.finish(&old.wal, &old.images).pop().unwrap();
    let progress = RaftGroup::recover(&old.wal, found).progress();
    assert_eq!((progress.image, progress.last, files(&old)), (1, 21, vec![file(9)]));
    node.commit();
    let (_, group) = node.restart(CrashOutcome::OnlySynced);
    assert_eq!((group.progress().image, group.progress().last), (9, 9));
}

#[test]
fn bytes_that_were_not_offered_are_not_installed() {
    let mut node = Node::new();
    for machine in [Bytes::from_static(b"small"), large(4)] {
        let (mut group, _) = offered(&mut node, &machine);
        let other: Bytes = machine.iter().map(|byte| byte ^ 1).collect();
        let mut fx = give(&node, &mut group, &other);
        if fx.write.is_some() {
            fx = write(&node, &mut group, fx);
        }
        let offset = machine.len() as u64;
        assert_eq!(bodies(&fx), [&MessageBody::ImageWant { index: 9, offset }]);
        assert_eq!((fx.restored, group.progress().image), (None, 1));
    }
}

#[test]
fn a_leader_sends_a_file_piece_by_piece() {
    let mut node = Node::new();
    let (mut group, machine) = alone(&mut node);
    node.step(&mut group, GroupStep::Member(Ticket(0), cluster::Change::AddLearner(OTHER)));
    let fx = group.take_image(2, machine.clone(), Bytes::new(), node.cx());
    assert!(fx.write.is_none(), "the image is there");
    assert_eq!(group.term(), 2);
    node.commit();
    node.step(&mut group, GroupStep::Durable);
    let mut sent = Vec::new();
    loop {
        let want = MessageBody::ImageWant { index: 2, offset: sent.len() as u64 };
        let fx = node.hear(&mut group, OTHER, 2, want);
        let [MessageBody::ImagePiece { index: 2, bytes, .. }] = bodies(&fx)[..] else {
            assert_eq!(fx.requests, [GroupRequest::Image], "the follower wants another image");
            break;
        };
        sent.extend_from_slice(bytes);
    }
    assert!(sent == machine);
    let fx = node.hear(&mut group, OTHER, 2, MessageBody::ImageWant { index: 1, offset: 0 });
    let [MessageBody::ImageOffer(offer)] = bodies(&fx)[..] else { panic!("{fx:?}") };
    assert_eq!((offer.index, offer.machine_bytes), (2, machine.len() as u64));
}
