//! Lives of the node: starts, stops, crashes, and what is there afterwards.

use super::{Node, PATIENCE, World, facts, open_session};
use crate::client::{self, Client, Expect};
use crate::model::Found;
use crate::outbox::{Given, Recorder, Transcript, What};
use broker::{Broker, Clock, PagerOptions, Session, Steppers, StorageOptions};
use log::{Disk, Fault, MemoryDisk, Survival, WalOptions};
use meta::{Command, PasswordHash, QueueVersion};
use session::{ChannelId, Control, Op, Origin, Request, ShortString};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

const LIVES_MAX: usize = 5;
const WORK_MAX: usize = 120;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 60;
/// Restarts that are looked at with a bit flipped.
const DAMAGED_PERCENT: usize = 30;
/// Faults in a row that starts may meet.
const FAULTY_STARTS_MAX: usize = 3;

impl World {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        self.node = Some(self.hold(self.open(&self.disk.clone())));
        self.bootstrap();
        let mut lives = 1 + self.random.below(LIVES_MAX);
        while lives > 0 {
            lives -= 1;
            self.plan_fault();
            for _ in 0..self.random.below(WORK_MAX) {
                self.act();
                if self.has_failed() {
                    self.after_failure();
                    break;
                }
            }
            if lives == 0 && self.random.percent(50) && self.leave_all() {
                // The last life goes on to the end.
                break;
            }
            let clean = self.random.percent(40) && self.stop();
            self.restart(clean);
        }
        // A planned fault may still come.
        if self.random.percent(DAMAGED_PERCENT) {
            return self.damage_end();
        }
        while !self.drain() {
            self.restart(false);
        }
    }

    fn options(&self) -> (WalOptions, Arc<AtomicBool>) {
        let failed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&failed);
        let options = WalOptions {
            segment_bytes: self.segment_bytes,
            unsynced_bytes_max: 64 << 10,
            salt: 7,
            on_failure: Some(Box::new(move |_| seen.store(true, Ordering::SeqCst))),
            ..WalOptions::default()
        };
        (options, failed)
    }

    fn open(&self, disk: &MemoryDisk) -> Result<Node, String> {
        let (options, failed) = self.options();
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let pager = PagerOptions {
            budget_bytes: 5 * self.allowance_bytes,
            allowance_bytes_min: self.allowance_bytes,
            allowance_bytes_max: self.allowance_bytes,
            excess_bytes_max: 40_000,
            unsynced_bytes_max: 30_000,
        };
        let storage = StorageOptions {
            clock: Clock::Ticks,
            pager,
            embed_below_bytes: self.embed_below_bytes,
            page_file_bytes: 40_000,
            body_file_bytes: 20_000,
            default_version: self.default_version,
        };
        let weak = Arc::downgrade(&disk);
        let opened = Broker::open_stepped(disk, options, &storage);
        let (broker, steppers) = opened.map_err(|error| error.to_string())?;
        Ok(Node { broker, steppers, disk: weak, failed })
    }

    /// As [`World::open`], and has it load the queues in the older form.
    pub(super) fn open_loaded(&self, disk: &MemoryDisk) -> Result<Node, String> {
        let mut node = self.open(disk)?;
        for _ in 0..PATIENCE {
            if node.steppers.older.has_failed() {
                return Err("simulated power loss while queues were loaded".to_owned());
            }
            if !node.broker.view().queues().any(|queue| queue.is_loading()) {
                return Ok(node);
            }
            node.steppers.older.step();
            node.steppers.pager.step_jobs();
            node.steppers.pager.step_sync();
        }
        Err("queues are not loaded".to_owned())
    }

    fn bootstrap(&mut self) {
        let password = PasswordHash::new([0; 4], "guest");
        let commands = [
            Command::CreateVhost { vhost: "/".into(), metadata: meta::VhostMetadata::default() },
            Command::CreateUser { user: "guest".into(), password, tags: Vec::new() },
            Command::SetPermissions {
                user: "guest".into(),
                vhost: "/".into(),
                configure: ".*".to_owned(),
                write: ".*".to_owned(),
                read: ".*".to_owned(),
            },
        ];
        let node = self.node.as_mut().expect("the node runs");
        let broker = Arc::clone(&node.broker);
        for command in commands {
            let changed = block_on(broker.administer(command), || node.step());
            assert!(
                changed.is_some_and(|changed| changed.is_ok()),
                "a new node takes its first user"
            );
        }
    }

    fn plan_fault(&mut self) {
        let fault = match self.random.below(10) {
            0..4 => Fault::PowerLoss,
            4 => Fault::Io,
            5 => Fault::NoSpace,
            _ => return,
        };
        let at = self.disk.operations() + self.random.below(FAULT_WITHIN) as u64;
        self.note(format!("planned: {fault:?} at disk operation {at}"));
        self.disk.inject(at, fault);
    }

    /// The log has failed: nobody is told that anything is durable from now on.
    fn after_failure(&mut self) {
        self.note("the log has failed");
        let ids: Vec<usize> = self.clients.keys().copied().collect();
        for id in ids {
            self.poll(id);
            for _ in 0..3 {
                let Some(state) = self.clients.get(&id).filter(|state| state.is_idle()) else {
                    break;
                };
                let Some(channel) = state.channels.keys().next().copied() else { break };
                match self.random.below(2) {
                    0 => self.publish(id),
                    _ => self.declare_queue(id, channel),
                }
                self.step();
            }
        }
    }

    /// Ends all connections; false when the disk is against it.
    pub(super) fn leave_all(&mut self) -> bool {
        if self.alarm {
            self.set_alarm(false);
        }
        self.step();
        let ids: Vec<usize> = self.clients.keys().copied().collect();
        for id in ids {
            for _ in 0..PATIENCE {
                if self.has_failed() || self.clients.get(&id).is_none_or(|c| c.task.is_none()) {
                    break;
                }
                self.step();
            }
            if !self.has_failed() && self.clients.get(&id).is_some_and(Client::is_idle) {
                self.end_connection(id);
            }
        }
        !self.has_failed() && self.clients.is_empty()
    }

    /// Stops the node in good order; false when the disk is against it.
    fn stop(&mut self) -> bool {
        self.note("stop");
        if !self.leave_all() {
            return false;
        }
        self.check();
        let stopped = self.broker().stop();
        self.step();
        stopped.is_ok() && !self.has_failed()
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, mut clean: bool) {
        // What was being closed may have got as far as it likes.
        let before = self.model.facts(true);
        for (client, channel) in self.model.closing.clone() {
            self.model.end_channel(client, channel);
        }
        self.touch(&before);
        self.model.closing.clear();
        self.model.to_be_told.clear();
        let mut disk = self.lose_power(&self.disk.clone());
        self.older.clear();
        let versions = [QueueVersion::V1, QueueVersion::V2, QueueVersion::V2];
        self.default_version = self.random.choose(&versions).unwrap_or_default();
        self.clients.clear();
        let left = self.node.take().map(|node| Weak::clone(&node.disk));
        if left.is_some_and(|disk| disk.strong_count() > 0) {
            self.object("something of the node is left in memory");
        }
        self.alarm = false;
        stdx::lock(&self.transcript).clear();
        for n_faults in 0.. {
            let copy = disk.survive(Survival::Everything);
            if n_faults < FAULTY_STARTS_MAX && self.random.percent(30) {
                let at = self.random.below(12) as u64;
                self.note(format!("planned: power loss at disk operation {at} of the start"));
                disk.inject(disk.operations() + at, Fault::PowerLoss);
            }
            match self.open_loaded(&disk) {
                Ok(node) => {
                    self.disk = disk;
                    self.node = Some(node);
                    let found = self.peek(&copy);
                    if self.random.percent(DAMAGED_PERCENT) {
                        self.damage_start(&copy, &found);
                    }
                    self.compare(clean, &found);
                    return;
                }
                Err(error) if error.contains("simulated power loss") => {
                    self.note("power is lost during the start");
                    disk = self.lose_power(&disk);
                    clean = false;
                }
                Err(error) => self.object(format!("the node does not start: {error}")),
            }
        }
    }

    fn lose_power(&mut self, disk: &MemoryDisk) -> MemoryDisk {
        let survival = match self.random.below(4) {
            0 => Survival::Everything,
            1 => Survival::OnlySynced,
            _ => Survival::Torn(self.random.next()),
        };
        self.note(format!("restart, {survival:?}"));
        disk.survive(survival)
    }

    /// What the queues hold, found out on a copy so that nobody is given anything.
    fn peek(&self, disk: &MemoryDisk) -> BTreeMap<String, Found> {
        let node = self.hold(self.open_loaded(disk));
        let mut solo = self.hold(Solo::new(node));
        let view = solo.node.broker.view();
        let mut found = BTreeMap::new();
        for queue in view.meta.queues() {
            let name = queue.name.to_string();
            let mut messages = Found::new();
            while let Some(given) = self.hold(solo.get(&name)) {
                let id = given.content.id().unwrap_or(u64::MAX);
                messages.push((id, given.redelivered));
            }
            found.insert(name, messages);
        }
        found
    }

    fn compare(&mut self, clean: bool, found: &BTreeMap<String, Found>) {
        for (name, found) in found {
            let shown =
                found.iter().map(|(id, again)| format!("m{id}{}", if *again { "*" } else { "" }));
            let line = format!("{name} has {}", super::join(shown));
            self.note(line);
        }
        let facts = facts(self.broker());
        let result = self.model.restart(clean, &facts, found);
        self.hold(result);
        self.check();
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn drain(&mut self) -> bool {
        self.note("drain");
        let client = self.connect();
        self.control(client, 1, Op::ChannelOpen, Expect::ChannelOpened);
        self.client(client).channels.insert(1, client::Channel::default());
        let queues: Vec<String> = self.model.queues.keys().cloned().collect();
        for queue in queues {
            while self.model.first_ready(&queue).is_some() && !self.has_failed() {
                self.get_from(client, 1, &queue, true);
                self.check();
            }
        }
        self.step();
        if self.has_failed() {
            return false;
        }
        self.lose(client);
        if self.broker().message_bytes() != 0 {
            self.object("bytes are left after the drain");
        }
        // Queues may still be on their way into another form, which is a definition.
        for _ in 0..10 {
            self.step();
        }
        if self.broker().snapshot_definitions().is_err() {
            return false;
        }
        for _ in 0..4 {
            self.page_all();
            self.step();
        }
        if self.has_failed() {
            return false;
        }
        let (durable, volatile) = self.broker().page_stats();
        if durable.live_blobs + volatile.live_blobs > 0 {
            self.object(format!("pages are not freed: {durable:?}, {volatile:?}"));
        }
        for (vhost, bodies) in self.broker().body_stats() {
            if bodies.live_blobs > 0 {
                self.object(format!("bodies of {vhost} are not freed: {bodies:?}"));
            }
        }
        if self.broker().n_lost() > 0 {
            self.object("messages are lost by damage that was never done");
        }
        let stats = self.broker().log_stats();
        let live = stats.oldest.map_or(0, |oldest| oldest.live);
        if stats.segments > 1 || live > 0 {
            self.object(format!("the log is not freed: {stats:?}"));
        }
        true
    }
}

impl Node {
    fn step(&mut self) {
        let Steppers { log, pager, older, rules } = &mut self.steppers;
        rules.step();
        older.step();
        pager.step_jobs();
        pager.step_sync();
        pager.step_names();
        log.step();
    }
}

/// Polls a future, stepping in between; `None` when it never ends.
fn block_on<T>(future: impl Future<Output = T>, mut step: impl FnMut()) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..PATIENCE {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        step();
    }
    None
}

/// The only client of a node that is looked into.
pub(super) struct Solo {
    pub(super) node: Node,
    session: Session,
    transcript: Transcript,
}

impl Solo {
    pub(super) fn new(node: Node) -> Result<Self, String> {
        let transcript = Transcript::default();
        let recorder = Recorder::new(0, &transcript, usize::MAX);
        let session = open_session(&node.broker, &recorder)?;
        let mut solo = Self { node, session, transcript };
        solo.ask(Op::ChannelOpen)?;
        Ok(solo)
    }

    fn ask(&mut self, op: Op) -> Result<Vec<What>, String> {
        let control = Control { channel: ChannelId(1), origin: Origin(0), nowait: false, op };
        let mut requests = vec![Request::Control(Box::new(control))];
        let node = &mut self.node;
        let done = block_on(self.session.submit(&[], &mut requests), || node.step());
        done.and_then(Result::ok).ok_or("the peeking client is thrown out")?;
        let heard = std::mem::take(&mut *stdx::lock(&self.transcript));
        Ok(heard.into_iter().map(|(_, what)| what).collect())
    }

    pub(super) fn get(&mut self, queue: &str) -> Result<Option<Given>, String> {
        let op = Op::Get { queue: ShortString::truncated(queue), no_ack: false };
        let mut told = self.ask(op)?;
        match (told.pop(), told.is_empty()) {
            (Some(What::GetEmpty), true) => Ok(None),
            (Some(What::Got { given, .. }), true) => Ok(Some(given)),
            other => Err(format!("peeking gave {other:?}, {told:?}")),
        }
    }
}
