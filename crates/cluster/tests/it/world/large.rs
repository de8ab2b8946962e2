//! Steps about images that are too large for the log, and about those that end entries.

use cluster::{GroupStep, IMAGES_DIR, Role};
use testing::Fault;

use super::{Node, OWNER, World, files_of};

impl World {
    /// Writes an image that is to be written, while the group goes on.
    pub(super) fn write_image(&mut self, node: u16) {
        let is_full = self.random.percent(10);
        let nth = self.random.below(6) as u64;
        let this = &mut self.nodes[usize::from(node) - 1];
        let Some(running) = &mut this.running else { return };
        let Some(write) = running.writes.0.pop_front() else { return };
        if is_full && running.images.sweep(&running.wal).is_ok() {
            this.disk.inject(this.disk.operations() + nth, Fault::NoSpace);
        }
        let written = write.write(&running.images, &running.wal);
        self.counts.files[usize::from(written.outcome.is_err())] += 1;
        running.writes.1.push_back(written);
        self.crash_if_dead(node);
    }

    pub(super) fn crash_if_dead(&mut self, node: u16) {
        if self.node(node).disk.has_lost_power() {
            self.crash(node);
        }
    }

    /// Tells the group of an image that was written.
    pub(super) fn hear_of_image(&mut self, node: u16) {
        let Some(running) = &mut self.node(node).running else { return };
        let Some(written) = running.writes.1.pop_front() else { return };
        let fx = running.with(|group, cx| group.image_written(written, cx));
        self.handle(node, fx);
    }

    /// Removes the files that have been replaced.
    pub(super) fn sweep(&mut self, node: u16) {
        let Some(running) = &mut self.node(node).running else { return };
        let swept = running.images.sweep(&running.wal);
        assert!(swept.is_ok() || self.node(node).disk.has_lost_power(), "{swept:?}");
        self.crash_if_dead(node);
    }

    /// Removes files while the entry of the last image may not be durable; often, it never will be.
    pub(super) fn sweep_and_crash(&mut self, node: u16) {
        self.write_image(node);
        self.hear_of_image(node);
        self.sweep(node);
        if self.random.percent(50) {
            self.crash(node);
        }
    }

    /// A leader is cut off with entries that only it has, while others go on and take images.
    pub(super) fn strand_leader(&mut self) {
        let leads =
            |node: &&Node| node.running.as_ref().is_some_and(|it| it.group.role() == Role::Leader);
        let Some(leader) = self.nodes.iter().find(leads).map(|node| node.me.node()) else { return };
        let others: Vec<_> = (1..=self.n()).filter(|node| *node != leader).collect();
        others.iter().for_each(|node| self.cut(leader, *node));
        for _ in 0..12 {
            self.propose();
            self.commit(leader);
        }
        let ends = |world: &Self, node: &u16| {
            let running = world.nodes[usize::from(*node) - 1].running.as_ref();
            running.map(|it| (it.group.term_at(it.group.progress().last), it.group.progress().last))
        };
        let Some(next) = others.iter().copied().max_by_key(|node| ends(self, node)) else { return };
        for node in others.iter().copied() {
            if node != next && self.node(node).running.is_some() {
                self.join(node, next);
            }
            self.tell((node, leader), false);
        }
        self.ask(next, GroupStep::Campaign);
        for round in 0..12 {
            for node in others.iter().copied() {
                (0..9).for_each(|_| self.deliver_any());
                self.commit(node);
                self.write_image(node);
                self.hear_of_image(node);
            }
            if round > 8 {
                self.propose();
                self.take_image(next);
            }
            self.check();
        }
        others.iter().for_each(|node| self.join(leader, *node));
    }

    /// Checks that files are gone which images have replaced, and that those that are left are of the group.
    pub(super) fn check_files(&mut self) {
        for node in 1..=self.n() {
            self.commit(node);
            self.sweep(node);
            let this = self.node(node);
            let Some(running) = &this.running else { continue };
            let image = format!("{:016x}-{:016x}", this.me.0, running.group.progress().image);
            let old = format!("{IMAGES_DIR}/{:016x}-{image}.image", OWNER.0);
            let is_old = |file: &String| file.trim_end_matches(".tmp") < old.as_str();
            let left: Vec<_> = files_of(&this.disk).into_iter().filter(is_old).collect();
            assert!(left.is_empty(), "{left:?} are older than {old}");
        }
    }
}
