//! Brokers that use each other's queues, with clients, broken connections and losses of power from one seed.
//! `remote_world/model.rs` says what must hold.

mod actor;
mod model;
mod node;
mod wires;

use crate::client::Client;
use actor::{Actor, AtQueue};
use model::Model;
use node::{NODES, Node, USES, home_of};
use std::collections::BTreeMap;
use testing::run::{Report, Show, Trace, fail};
use testing::{CrashOutcome, Random};
use wires::Wire;

/// Seeds of a usual run; `REMOTE_SEEDS` asks for others, as `from..to`.
const SEEDS: std::ops::Range<u64> = 0..80;
/// Rounds after which everything must be idle.
const PATIENCE: usize = 2_000;

/// A turn of a client among others; returns whether anything has happened.
type ActorTurn = fn(&mut Actor, &mut Model, &[Actor], &mut Trace) -> bool;

struct World {
    random: Random,
    trace: Trace,
    nodes: Vec<Node>,
    wires: Vec<Wire>,
    actors: Vec<Actor>,
    model: Model,
    n_wires: u64,
    n_actors: u64,
    n_messages: u64,
    /// Faults in so many of a thousand steps.
    faults: usize,
}

impl World {
    fn new(seed: u64, show: Show) -> Self {
        let mut random = Random::new(seed);
        let n = 2 + random.below(2);
        let faults = random.choose(&[0, 20, 60]).unwrap();
        Self {
            random,
            trace: Trace::new(show),
            nodes: (0..n).map(|at| Node::new(at, n)).collect(),
            wires: Vec::new(),
            actors: Vec::new(),
            model: Model::new(n),
            n_wires: 0,
            n_actors: 0,
            n_messages: 0,
            faults,
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let n = self.nodes.len();
        (0..n).flat_map(move |a| (a + 1..n).map(move |b| (a, b)))
    }

    fn run(&mut self) {
        self.settle();
        for _ in 0..3 {
            for _ in 0..60 {
                self.step();
            }
            self.settle();
        }
        self.actors.iter_mut().filter(|actor| actor.is_idle()).for_each(Actor::close);
        self.settle();
        let present = self.drain();
        self.model.check(&present);
    }

    fn step(&mut self) {
        if self.random.below(1000) < self.faults {
            self.fault();
        }
        self.mend(30);
        self.connect();
        for at in 0..self.actors.len() {
            if self.random.percent(30) && self.actors[at].is_idle() {
                self.act(at);
            }
        }
        self.turn(50);
    }

    fn fault(&mut self) {
        match self.random.below(10) {
            0..3 => {
                let at = self.random.below(self.nodes.len());
                self.crash(at);
            }
            3..8 => {
                let pairs: Vec<_> = self.pairs().collect();
                let (a, b) = self.random.choose(&pairs).unwrap();
                self.sever(a, b);
                if self.random.percent(50) {
                    self.make(a, b);
                }
            }
            _ => {
                let Self { wires, random, .. } = self;
                wires.iter_mut().for_each(|wire| wire.stall(random));
            }
        }
    }

    fn sever(&mut self, a: usize, b: usize) {
        let Self { wires, random, trace, .. } = self;
        for wire in wires.iter_mut().filter(|it| it.is_between(a, b) && !it.is_broken()) {
            trace.note(format!("the connection of {} and {} breaks", NODES[a], NODES[b]));
            wire.sever(random);
            self.model.faults.note(a, b);
        }
        self.refresh();
    }

    fn make(&mut self, a: usize, b: usize) {
        let has_one = self.wires.iter().any(|it| it.is_between(a, b) && !it.is_broken());
        let are_up = self.nodes[a].running.is_some() && self.nodes[b].running.is_some();
        if !has_one && are_up {
            self.n_wires += 1;
            self.trace.note(format!("{} and {} connect", NODES[a], NODES[b]));
            self.wires.push(Wire::new(self.n_wires, [a, b]));
        }
    }

    fn crash(&mut self, at: usize) {
        if self.nodes[at].running.is_none() {
            return;
        }
        self.trace.note(format!("{} loses power", NODES[at]));
        for other in (0..self.nodes.len()).filter(|other| *other != at) {
            self.sever(at, other);
        }
        self.wires.iter_mut().for_each(|wire| wire.lose(at));
        self.actors.retain(|actor| actor.node != at);
        let outcome = match self.random.below(3) {
            0 => CrashOutcome::OnlySynced,
            1 => CrashOutcome::Everything,
            _ => CrashOutcome::Torn(self.random.next()),
        };
        self.nodes[at].crash(outcome);
        self.model.faults.note_crash(at, self.nodes.len());
        self.refresh();
    }

    /// Starts nodes and makes connections, each with this probability.
    fn mend(&mut self, percent: usize) {
        for (at, name) in NODES.iter().enumerate().take(self.nodes.len()) {
            if self.nodes[at].running.is_none() && self.random.percent(percent) {
                self.trace.note(format!("{name} starts"));
                self.nodes[at].start(self.model.n_nodes);
            }
        }
        for (a, b) in self.pairs() {
            if self.random.percent(percent) {
                self.make(a, b);
            }
        }
        if self.random.percent(percent) {
            self.wires.iter_mut().for_each(Wire::unstall);
        }
    }

    fn connect(&mut self) {
        let node = self.random.below(self.nodes.len());
        let Some(running) = &self.nodes[node].running else { return };
        if self.actors.len() < 6 && self.random.percent(30) {
            self.n_actors += 1;
            let _in_runtime = running.runtime.enter();
            self.actors.push(Actor::connect(self.n_actors, node, running, &mut self.random));
        }
    }

    fn act(&mut self, at: usize) {
        let Self { actors, nodes, random, model, n_messages, trace, .. } = self;
        let actor = &mut actors[at];
        let running = nodes[actor.node].running.as_ref().unwrap();
        let _in_runtime = running.runtime.enter();
        actor.act(random, model, n_messages);
        trace.note(actor.describe());
    }

    /// Everything has a turn with this probability; returns whether anything has happened.
    fn turn(&mut self, percent: usize) -> bool {
        let mut is_active = false;
        for node in &mut self.nodes {
            let Some(running) = &mut node.running else { continue };
            let part = (percent < 100).then(|| self.random.below(4));
            is_active |= running.step(part);
        }
        for wire in &mut self.wires {
            is_active |= wire.step(&mut self.nodes, &mut self.random, percent);
        }
        // Clients hear what has come while the connections are as they were.
        for at in 0..self.actors.len() {
            is_active |= self.turn_of(at, Actor::hear);
        }
        self.wires.retain(|wire| !wire.is_over());
        self.refresh();
        for at in 0..self.actors.len() {
            if self.random.percent(percent) {
                is_active |= self.turn_of(at, Actor::step);
            }
        }
        self.actors.retain(|actor| !actor.is_over);
        is_active
    }

    fn turn_of(&mut self, at: usize, turn: ActorTurn) -> bool {
        let mut actor = self.actors.remove(at);
        let running = self.nodes[actor.node].running.as_ref().unwrap();
        let _in_runtime = running.runtime.enter();
        let is_active = turn(&mut actor, &mut self.model, &self.actors, &mut self.trace);
        self.actors.insert(at, actor);
        is_active
    }

    /// Tells the model which nodes reach each other.
    fn refresh(&mut self) {
        for (a, b) in self.pairs() {
            let mut wires = self.wires.iter().filter(|wire| wire.is_between(a, b));
            let is_settled = wires.next().is_some_and(Wire::is_settled) && wires.next().is_none();
            self.model.faults.set_settled(a, b, is_settled);
        }
    }

    /// Heals everything, waits until it is idle, and compares.
    fn settle(&mut self) {
        let mut n_idle = 0;
        for _ in 0..PATIENCE {
            self.mend(100);
            n_idle = if self.turn(100) { 0 } else { n_idle + 1 };
            if n_idle > 2 {
                break;
            }
        }
        if n_idle <= 2 {
            fail("there is no end to it");
        }
        self.trace.note("all is idle".to_owned());
        let mut counts: BTreeMap<String, AtQueue> = BTreeMap::new();
        self.actors.iter().for_each(|actor| actor.count(&self.model, &mut counts));
        for queue in self.queues() {
            let told = counts.remove(&queue).unwrap_or_default();
            let running = self.nodes[home_of(&queue)].running.as_ref().unwrap();
            let stat = running.broker.queue("/", &queue).unwrap().local_stat();
            if stat.n_consumers != told.n_consumers
                || !(told.n_held..=told.n_perhaps).contains(&stat.n_unacked)
                || stat.n_departing > 0
            {
                fail(format!("{queue} has {stat:?}, and its clients {told:?}"));
            }
        }
        self.model.all_is_idle();
    }

    fn queues(&self) -> Vec<String> {
        let nodes = NODES.iter().take(self.nodes.len());
        nodes.flat_map(|node| USES.map(|of| format!("{node}.{of}"))).collect()
    }

    /// The messages that are left in all queues.
    fn drain(&mut self) -> BTreeMap<(String, u64), u32> {
        let mut present = BTreeMap::new();
        for queue in self.queues() {
            let running = self.nodes[home_of(&queue)].running.as_mut().unwrap();
            let mut client = Client::connect(&running.broker);
            while running.get(&mut client, &queue) != ["get empty"] {
                let id = client.last().id().unwrap();
                *present.entry((queue.clone(), id)).or_default() += 1;
            }
        }
        present
    }
}

fn run(seed: u64, show: Show) -> Report {
    Report::of(World::new(seed, show), World::run, |world| world.trace)
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(given) = std::env::var("REMOTE_SEEDS") else { return SEEDS };
    let (from, to) = given.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn no_seed_finds_anything_wrong() {
    let seeds = seeds();
    let show = if seeds.end - seeds.start == 1 { Show::Printed } else { Show::Kept };
    for seed in seeds {
        run(seed, show).assert_passed(&format!("REMOTE_SEEDS={seed}..{}", seed + 1));
    }
}

#[test]
fn a_seed_always_does_the_same() {
    for seed in 1_000..1_005 {
        assert_eq!(run(seed, Show::Kept).hash, run(seed, Show::Kept).hash, "seed {seed}");
    }
}
