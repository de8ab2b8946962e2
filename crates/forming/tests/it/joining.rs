//! Nodes join and leave, killed at each operation of their disks.

use forming::{
    JoinAnswer, JoinAsk, JoinedCluster, JoinedMember, Joining, JoiningNote, JoiningStep,
};
use log::{ClusterId, NODE_FILE, NodeIdentity, NodeNote, NodeNumber, wipe_data};
use peer::PeerAddress;
use segments::{read_snapshot, write_snapshot};
use testing::{CrashOutcome, Fault, MemoryDisk};

const NAME: &str = "rabbit@new";
const DATA: &str = "leveret-data";

fn address(host: &str) -> PeerAddress {
    PeerAddress { host: host.to_owned(), port: 25672 }
}

fn ask(token: u64) -> JoinAsk {
    JoinAsk { name: NAME.to_owned(), address: address("new"), token }
}

/// The cluster's side: numbers by token.
#[derive(Default)]
struct Cluster {
    tokens: Vec<u64>,
    n_left: usize,
}

impl Cluster {
    /// The answer to a node: a name that is a member gets its number again with the same token only.
    fn answer(&mut self, ask: &JoinAsk) -> JoinAnswer {
        if self.tokens.is_empty() {
            self.tokens.push(ask.token);
        }
        if self.tokens != [ask.token] {
            return JoinAnswer::Refused(format!("{NAME} is a member: forget it first"));
        }
        let members = vec![JoinedMember {
            number: NodeNumber(1),
            name: "rabbit@old".to_owned(),
            address: address("old"),
        }];
        let (cluster, number) = (ClusterId(77), NodeNumber(2));
        JoinAnswer::Joined(JoinedCluster { cluster, epoch: 3, number, members })
    }
}

/// Does the steps until nothing is left to do, or the disk loses power.
fn go_on(disk: &MemoryDisk, joining: &mut Joining, cluster: &mut Cluster) -> Option<JoiningStep> {
    loop {
        let step = joining.step();
        match &step {
            JoiningStep::CountMessages => {
                joining.counted(0);
                continue;
            }
            JoiningStep::AskToJoin(ask) => {
                joining.answered(JoinAnswer::NotNow("no leader".to_owned()));
                joining.answered(cluster.answer(ask));
                continue;
            }
            JoiningStep::AskToLeave(_) => {
                cluster.n_left += 1;
                joining.answered(JoinAnswer::Left);
                continue;
            }
            JoiningStep::WriteNote(note) => NodeNote::Joining.write(disk, &note.encode()).ok()?,
            JoiningStep::Wipe => {
                wipe_data(disk, &[DATA, NODE_FILE, NodeNote::Promise.file()]).ok()?;
            }
            JoiningStep::WriteIdentity(identity) => identity.create(disk).ok()?,
            JoiningStep::RemoveNote => NodeNote::Joining.remove(disk).ok()?,
            JoiningStep::Learn(_) | JoiningStep::BeFresh | JoiningStep::Refuse(_) => {
                return Some(step);
            }
        }
        joining.done();
    }
}

fn note(disk: &MemoryDisk) -> Option<JoiningNote> {
    let bytes = NodeNote::Joining.read(disk).unwrap();
    bytes.map(|bytes| JoiningNote::decode(&bytes).unwrap())
}

/// A node that has been a cluster of its own, with data.
fn old_node() -> MemoryDisk {
    let disk = MemoryDisk::new();
    NodeIdentity::begin(&disk, ClusterId(5), NAME).unwrap();
    write_snapshot(&disk, DATA, b"data").unwrap();
    disk
}

/// The disk at a start is one node's: the old one's, whole, or as the note says.
fn check(disk: &MemoryDisk) {
    let is_whole = read_snapshot(disk, DATA).unwrap().is_some()
        && NodeIdentity::read(disk).unwrap().is_some_and(|it| it.cluster == ClusterId(5));
    let identity = NodeIdentity::read(disk).unwrap();
    match note(disk) {
        Some(JoiningNote::Asks { .. } | JoiningNote::Discards { .. }) => assert!(is_whole),
        Some(JoiningNote::Wipes(_)) => {}
        Some(JoiningNote::Learns(cluster)) => {
            assert_eq!(identity.map(|it| it.number), Some(cluster.number));
            assert_eq!(read_snapshot(disk, DATA).unwrap(), None);
        }
        None => {
            assert!(is_whole || identity.is_none() && read_snapshot(disk, DATA).unwrap().is_none())
        }
    }
}

/// Runs a command with power lost at one operation, goes on at the next start, and gives the command again.
fn run(
    operation: u64,
    cluster: &mut Cluster,
    begin: impl Fn(u64, &MemoryDisk) -> Joining,
) -> (MemoryDisk, JoiningStep) {
    let mut disk = old_node();
    disk.inject(disk.operations() + operation, Fault::PowerLoss);
    let mut end = go_on(&disk, &mut begin(1, &disk), cluster);
    for start in 2..5 {
        let outcomes =
            [CrashOutcome::Everything, CrashOutcome::OnlySynced, CrashOutcome::Torn(operation)];
        disk = disk.survive(outcomes[(operation % 3) as usize]);
        check(&disk);
        if let Some(mut joining) = Joining::resume(NAME, note(&disk)) {
            end = go_on(&disk, &mut joining, cluster);
        }
        let is_old =
            NodeIdentity::read(&disk).unwrap().is_some_and(|it| it.cluster == ClusterId(5));
        if is_old {
            end = go_on(&disk, &mut begin(start, &disk), cluster);
        }
    }
    // A removed note leaves nothing to go on with: the node is fresh.
    (disk, end.unwrap_or(JoiningStep::BeFresh))
}

#[test]
fn a_joiner_killed_at_any_operation_joins_once_by_the_same_command() {
    for operation in 0..40 {
        let mut cluster = Cluster::default();
        let begin = |token, disk: &MemoryDisk| Joining::join(ask(token), false, note(disk));
        let (disk, end) = run(operation, &mut cluster, begin);
        let JoiningStep::Learn(joined) = end else { panic!("operation {operation}: {end:?}") };
        assert_eq!((joined.number, joined.members.len()), (NodeNumber(2), 1));
        let identity = NodeIdentity::read(&disk).unwrap().unwrap();
        assert_eq!((identity.cluster, identity.epoch, identity.boot), (ClusterId(77), 3, 1));
        assert_eq!(note(&disk), Some(JoiningNote::Learns(joined)));
    }
}

#[test]
fn a_member_killed_in_its_reset_becomes_fresh() {
    for operation in 0..30 {
        let mut cluster = Cluster::default();
        let begin =
            |_, disk: &MemoryDisk| Joining::reset(&NodeIdentity::read(disk).unwrap().unwrap());
        let (disk, end) = run(operation, &mut cluster, begin);
        assert_eq!(end, JoiningStep::BeFresh, "operation {operation}");
        assert_eq!((NodeIdentity::read(&disk).unwrap(), note(&disk)), (None, None));
        assert!(cluster.n_left > 0);
        let mut cluster = Cluster::default();
        let (_, end) = run(operation, &mut cluster, |_, _| Joining::force_reset(NAME));
        assert_eq!((end, cluster.n_left), (JoiningStep::BeFresh, 0));
    }
}

#[test]
fn a_node_with_messages_joins_only_if_it_is_forced() {
    let mut joining = Joining::join(ask(1), false, None);
    assert_eq!(joining.step(), JoiningStep::CountMessages);
    joining.counted(3);
    let JoiningStep::Refuse(text) = joining.step() else { panic!("{joining:?}") };
    assert!(text.contains("--force"), "{text}");
    let forced = Joining::join(ask(1), true, None);
    assert_eq!(forced.step(), JoiningStep::WriteNote(JoiningNote::Asks { token: 1 }));
}

#[test]
fn a_refused_joiner_stays_what_it_was() {
    let disk = old_node();
    let mut cluster = Cluster { tokens: vec![9], n_left: 0 };
    let end = go_on(&disk, &mut Joining::join(ask(1), false, None), &mut cluster);
    assert_eq!(
        end,
        Some(JoiningStep::Refuse("rabbit@new is a member: forget it first".to_owned()))
    );
    check(&disk);
    assert_eq!(note(&disk), None);
}

#[test]
fn a_token_of_an_earlier_attempt_is_used_again() {
    let joining = Joining::join(ask(4), true, Some(JoiningNote::Asks { token: 3 }));
    assert_eq!(joining.step(), JoiningStep::WriteNote(JoiningNote::Asks { token: 3 }));
}
