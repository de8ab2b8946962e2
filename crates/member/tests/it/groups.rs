//! The groups of a node: the definitions, and machines that remember the numbers that were proposed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use cluster::{
    CacheBudget, Change, Context, GroupEffects, GroupRecovery, GroupRequest, GroupStep, Health,
    ImageStore, ImageWrite, LivingNodes, Members, OutgoingMessage, PeerId, ProposalOutcome,
    RaftGroup, Role, Ticket,
};
use definitions::{AskAnswer, DefinitionsEffects, DefinitionsGroup};
use log::{
    ClusterId, CommitListener, Identities, Lsn, NodeId, NodeNumber, Owner, Stepper, Wal, WalOptions,
};
use testing::MemoryDisk;

use crate::ledger::{DEFINITIONS, Ledger};

/// A replica of a group whose machine is a list of numbers.
pub(crate) struct PlainGroup {
    pub(crate) group: RaftGroup,
    pub(crate) machine: Vec<u64>,
    applied: u64,
}

/// The log and the groups of a node.
pub(crate) struct Groups {
    pub(crate) node: NodeNumber,
    /// Never dropped: that would write what a crash loses.
    wal: ManuallyDrop<Wal>,
    stepper: Stepper,
    pub(crate) definitions: DefinitionsGroup,
    pub(crate) plain: BTreeMap<Owner, PlainGroup>,
    cache: Arc<CacheBudget>,
    images: ImageStore,
    /// Positions that groups wait for.
    durable_at: BTreeMap<Owner, Lsn>,
    /// Whether somebody waits for the log.
    is_awaited: bool,
    /// Term and commit index of each group, as they were last seen.
    seen: BTreeMap<Owner, (u64, u64)>,
    disk: MemoryDisk,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
}

/// The nodes of the world and the members of its groups, as operators want them.
pub(crate) struct Plan {
    /// The number of the node at each place.
    pub(crate) numbers: Vec<NodeNumber>,
    pub(crate) groups: BTreeMap<Owner, Members>,
}

impl Plan {
    /// Whether a node has come after the groups were made.
    fn is_joiner(&self, node: NodeNumber) -> bool {
        usize::from(node.0) > self.numbers.len()
    }

    /// The next change that makes a group's members those of the plan.
    pub(crate) fn next_change(&self, owner: Owner, members: &Members) -> Option<Change> {
        let wanted = self.groups.get(&owner)?;
        let removed = members.all().find(|peer| !wanted.has(*peer)).map(Change::Remove);
        let added = wanted.all().find(|peer| !members.has(*peer)).map(Change::AddLearner);
        removed.or(added).or_else(|| members.learners.first().copied().map(Change::Promote))
    }
}

/// The work that a step leaves to the node.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) messages: Vec<OutgoingMessage>,
    pub(crate) answers: Vec<AskAnswer>,
    pub(crate) requests: Vec<GroupRequest>,
}

/// Bytes up to which an image lies in the log: the others are files.
const IMAGE_IN_LOG_BYTES: usize = 600;

struct Forever;

impl CommitListener for Forever {
    fn durable(&self, _upto: Lsn) -> bool {
        true
    }
}

/// The replica's number, of which a node has one in each group.
pub(crate) fn peer_id(node: NodeNumber) -> PeerId {
    PeerId(u64::from(node.0) << 48 | 1)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

impl Groups {
    /// Opens the log, and goes on with each group that it has, or makes the group.
    pub(crate) fn open(
        node: NodeNumber,
        disk: &MemoryDisk,
        plan: &Plan,
        ledger: Rc<RefCell<Ledger>>,
    ) -> Result<Self, String> {
        let mut recovery = GroupRecovery::default();
        let given = Identities { salt: 77, node: NodeId(node.0.into()), cluster: ClusterId(1) };
        let options = WalOptions { segment_bytes: 64 << 10, given, ..WalOptions::default() };
        let opened = Wal::open_stepped(Arc::new(disk.clone()), options, &mut |entry| {
            recovery.visit(&entry);
            Ok(())
        });
        let (wal, stepper) = opened.map_err(|error| error.to_string())?;
        let mut found = BTreeMap::new();
        let images = ImageStore::open(Arc::new(disk.clone()), IMAGE_IN_LOG_BYTES);
        let images = images.map_err(|error| error.to_string())?;
        for mut group in recovery.finish(&wal, &images) {
            let image = group.read_image(&wal, &images).unwrap().machine;
            let (owner, index) = (group.owner(), group.image_index());
            found.insert(owner, (RaftGroup::recover(&wal, group), index, image));
        }
        let (mut plain, mut definitions) = (BTreeMap::new(), None);
        let mine = plan.groups.iter().filter(|(_, members)| members.has(peer_id(node)));
        for (owner, members) in mine {
            // A group of which nothing was durable has told nobody anything.
            let (group, applied, image) = found.remove(owner).unwrap_or_else(|| {
                let me = peer_id(node);
                if plan.is_joiner(node) {
                    return (RaftGroup::join(*owner, me), 0, Bytes::new());
                }
                (RaftGroup::create(&wal, *owner, me, members.clone()), 1, Bytes::new())
            });
            assert_eq!(group.health(), Health::Sound, "{owner:?} at {node:?}");
            ledger.borrow().recovered(*owner, &group);
            if *owner == DEFINITIONS {
                definitions = Some(DefinitionsGroup::new(group, &image).unwrap());
            } else {
                let machine = image.chunks(8).map(number).collect();
                plain.insert(*owner, PlainGroup { group, machine, applied });
            }
        }
        wal.start_freeing();
        Ok(Self {
            node,
            wal: ManuallyDrop::new(wal),
            stepper,
            definitions: definitions.unwrap(),
            plain,
            cache: Arc::default(),
            images,
            durable_at: plan.groups.keys().map(|owner| (*owner, Lsn(0))).collect(),
            is_awaited: true,
            seen: BTreeMap::new(),
            disk: disk.clone(),
            ledger,
        })
    }

    pub(crate) fn owners(&self) -> Vec<Owner> {
        std::iter::once(DEFINITIONS).chain(self.plain.keys().copied()).collect()
    }

    pub(crate) fn group(&self, owner: Owner) -> Option<&RaftGroup> {
        if owner == DEFINITIONS {
            return Some(self.definitions.group());
        }
        self.plain.get(&owner).map(|plain| &plain.group)
    }

    /// Has the log sync what somebody waits for; returns the position up to which it is durable.
    pub(crate) fn commit(&mut self) -> Option<Lsn> {
        if !std::mem::take(&mut self.is_awaited) {
            return None;
        }
        self.wal.watch(Arc::new(Forever));
        self.stepper.step();
        Some(self.wal.durable_upto())
    }

    /// Groups for which what has become durable is news.
    pub(crate) fn with_durable(&mut self, upto: Lsn) -> Vec<Owner> {
        let due = self.durable_at.extract_if(.., |_, at| *at <= upto);
        due.map(|(owner, _)| owner).collect()
    }

    pub(crate) const fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.wal.poisoned().is_some()
    }

    pub(crate) fn step(&mut self, owner: Owner, step: GroupStep, living: &LivingNodes) -> Work {
        let Self { wal, cache, images, .. } = self;
        let cx = Context { wal, living, cache, images };
        if owner == DEFINITIONS {
            let fx = self.definitions.step(step, cx);
            return self.defined(fx, living);
        }
        let Some(plain) = self.plain.get_mut(&owner) else { return Work::default() };
        let fx = plain.group.step(step, cx);
        self.stepped(owner, fx, living)
    }

    pub(crate) fn take_image(&mut self, owner: Owner, living: &LivingNodes) -> Work {
        let Self { wal, cache, images, .. } = self;
        let cx = Context { wal, living, cache, images };
        self.ledger.borrow_mut().counts.images += 1;
        if owner == DEFINITIONS {
            let fx = self.definitions.take_image(Bytes::new(), cx);
            return self.defined(fx, living);
        }
        let Some(plain) = self.plain.get_mut(&owner) else { return Work::default() };
        let machine: Vec<u8> = plain.machine.iter().flat_map(|it| it.to_le_bytes()).collect();
        let index = plain.group.progress().applied;
        let fx = plain.group.take_image(index, machine.into(), Bytes::new(), cx);
        self.stepped(owner, fx, living)
    }

    pub(crate) fn ask(&mut self, ask: &definitions::Ask, living: &LivingNodes) -> Work {
        let Self { wal, cache, images, .. } = self;
        let cx = Context { wal, living, cache, images };
        let fx = self.definitions.ask(ask, cx);
        self.defined(fx, living)
    }

    fn defined(&mut self, fx: DefinitionsEffects, living: &LivingNodes) -> Work {
        let DefinitionsEffects { is_restored, changes, answers, stopped, group } = fx;
        assert_eq!(stopped, None, "{:?} stops", self.node);
        self.ledger.borrow_mut().counts.restored += u64::from(is_restored);
        self.ledger.borrow_mut().changed(changes);
        let mut work = self.stepped(DEFINITIONS, group, living);
        work.answers.extend(answers);
        work
    }

    /// Writes an image that is a file, and goes on with it.
    fn write_image(&mut self, owner: Owner, write: ImageWrite, living: &LivingNodes) -> Work {
        let Self { wal, cache, images, .. } = self;
        let written = write.write(images, wal);
        let cx = Context { wal, living, cache, images };
        if owner == DEFINITIONS {
            let fx = self.definitions.image_written(written, cx);
            return self.defined(fx, living);
        }
        let Some(plain) = self.plain.get_mut(&owner) else { return Work::default() };
        let fx = plain.group.image_written(written, cx);
        self.stepped(owner, fx, living)
    }

    fn stepped(&mut self, owner: Owner, mut fx: GroupEffects, living: &LivingNodes) -> Work {
        let write = fx.write.take();
        let mut work = self.worked_off(owner, fx);
        if let Some(write) = write {
            let Work { messages, answers, requests } = self.write_image(owner, write, living);
            work.messages.extend(messages);
            work.answers.extend(answers);
            work.requests.extend(requests);
        }
        work
    }

    fn worked_off(&mut self, owner: Owner, fx: GroupEffects) -> Work {
        let GroupEffects { restored, committed, answers, messages, durable_at, requests, .. } = fx;
        let mut ledger = self.ledger.borrow_mut();
        if let Some(plain) = self.plain.get_mut(&owner) {
            if let Some(image) = restored {
                plain.machine = image.machine.chunks(8).map(number).collect();
                plain.applied = image.index;
                ledger.counts.restored += 1;
            }
            // Alone, entries are applied before they are durable: a crash may take them back.
            let is_alone = plain.group.members().are_only(plain.group.me());
            for entry in committed {
                assert!(entry.index > plain.applied, "entry {} is applied again", entry.index);
                plain.applied = entry.index;
                plain.machine.extend(entry.commands.chunks(8).map(number));
                if !is_alone {
                    ledger.applied(owner, &entry);
                }
            }
        }
        for (Ticket(ticket), answer) in answers {
            if let ProposalOutcome::Committed(_) = answer
                && ticket > 0
            {
                ledger.acked(owner, ticket);
            }
        }
        drop(ledger);
        if let Some(at) = durable_at {
            self.durable_at.insert(owner, at);
        }
        let held = messages.iter().filter_map(|it| it.after);
        self.is_awaited |= held.chain(durable_at).any(|at| at > self.wal.durable_upto());
        self.check(owner);
        let is_off = self.disk.has_lost_power() || self.is_poisoned();
        let has_stopped = requests.contains(&GroupRequest::Stopped);
        assert!(is_off || !has_stopped, "{owner:?} has stopped at {:?}", self.node);
        Work { messages, answers: Vec::new(), requests }
    }

    /// Checks what only grows.
    fn check(&mut self, owner: Owner) {
        let Some(group) = self.group(owner) else { return };
        let now = (group.term(), group.progress().committed);
        let (me, progress) = (group.me(), group.progress());
        assert!(progress.applied <= progress.committed, "{owner:?} at {me:?} applies too much");
        let seen = self.seen.insert(owner, now).unwrap_or_default();
        assert!(now.0 >= seen.0 && now.1 >= seen.1, "{owner:?} at {me:?} falls: {seen:?} {now:?}");
    }

    pub(crate) fn leads(&self, owner: Owner) -> bool {
        self.group(owner).is_some_and(|group| group.role() == Role::Leader)
    }
}
