//! Groups, held against what their clients have been told.

use super::*;
use proptest::prelude::*;
use stdx::MonotonicMs;

const NAMES: [&str; 2] = ["a", "b"];
const TIMEOUT_MS: u64 = 60_000;

/// A consumer as its client knows it.
#[derive(Debug)]
struct Client {
    member: Member,
    /// Updates that are not answered, oldest first.
    pending: Vec<(u32, bool)>,
    /// It was told that it is active, and has not answered since that it is not.
    holds: bool,
    /// Since when the newest update is not answered, or one before it.
    silent_since: Option<u64>,
}

/// The view from outside: who is in which group, in the order of coming, and what each heard.
#[derive(Debug, Default)]
struct Model {
    groups: Groups<Member>,
    clients: [Vec<Client>; 2],
    /// By name; a group that is empty has any.
    partitions: [Partition; 2],
    n_asked: u32,
    now_ms: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Join(usize, Partition),
    Leave(usize, usize),
    /// The oldest or the newest update of a consumer that is not answered.
    Answer(usize, usize, bool),
    AnswerWrong(usize, usize, u32),
    Activate(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let group = || 0..2_usize;
    let partition = prop_oneof![Just(None), Just(Some(0)), Just(Some(1)), Just(Some(5))];
    prop_oneof![
        4 => (group(), partition).prop_map(|(group, partition)| Step::Join(group, partition)),
        2 => (group(), any::<usize>()).prop_map(|(group, at)| Step::Leave(group, at)),
        6 => (group(), any::<usize>(), any::<bool>())
            .prop_map(|(group, at, newest)| Step::Answer(group, at, newest)),
        1 => (group(), any::<usize>(), any::<u32>())
            .prop_map(|(group, at, update)| Step::AnswerWrong(group, at, update)),
        1 => group().prop_map(Step::Activate),
        1 => (0..TIMEOUT_MS).prop_map(Step::Wait),
    ]
}

impl Model {
    fn asking(&mut self) -> Asking {
        self.n_asked += 1;
        Asking { update: self.n_asked, now_ms: MonotonicMs::from_raw(self.now_ms) }
    }

    fn at(&self, group: usize, at: usize) -> Option<usize> {
        at.checked_rem(self.clients[group].len())
    }

    /// The update that RabbitMQ's rules ask for now, from what the clients know.
    fn expected(&self, group: usize) -> Option<(Member, bool)> {
        let clients = &self.clients[group];
        let place = self.partitions[group].unwrap_or(0) % (clients.len() as u64).max(1);
        let chosen = clients.get(usize::try_from(place).unwrap())?;
        match clients.iter().find(|client| client.holds) {
            None => Some((chosen.member, true)),
            Some(holder) if holder.pending.last().is_some_and(|(_, active)| !active) => None,
            Some(holder) if holder.member == chosen.member => None,
            Some(holder) => Some((holder.member, false)),
        }
    }

    /// A client hears what the machine has said, which is what is expected.
    fn hear(&mut self, group: usize, change: Option<Change<Member>>) {
        let expected = self.expected(group);
        assert_eq!(change.as_ref().map(|it| (it.consumer, it.active)), expected, "{self:?}");
        let Some(Change { consumer, update, active }) = change else { return };
        let now_ms = self.now_ms;
        let mut clients = self.clients[group].iter_mut();
        let client = clients.find(|client| client.member == consumer).unwrap();
        client.pending.push((update, active));
        client.holds |= active;
        client.silent_since.get_or_insert(now_ms);
    }

    fn join(&mut self, group: usize, partition: Partition) {
        let asking = self.asking();
        let member = Member::from(asking.update);
        let joined = self.groups.join(NAMES[group], partition, member, member, asking);
        if self.clients[group].is_empty() {
            self.partitions[group] = partition;
        } else if self.partitions[group] != partition {
            return assert_eq!(joined, Err(JoinRefused::OtherPartition));
        }
        let client = Client { member, pending: Vec::new(), holds: false, silent_since: None };
        self.clients[group].push(client);
        self.hear(group, joined.unwrap());
    }

    fn leave(&mut self, group: usize, at: usize) {
        let Client { member, .. } = self.clients[group].remove(at);
        let asking = self.asking();
        let change = self.groups.leave(member, asking);
        self.hear(group, change);
        assert_eq!(self.groups.leave(member, asking), None);
    }

    fn answer(&mut self, group: usize, at: usize, newest: bool) {
        let client = &mut self.clients[group][at];
        let n = client.pending.len();
        if n == 0 {
            return;
        }
        let (update, active) = client.pending.remove(if newest { n - 1 } else { 0 });
        let (member, is_newest) = (client.member, newest || n == 1);
        assert_eq!(self.groups.asked(member, update), is_newest.then_some(active));
        if is_newest {
            client.pending.clear();
            client.silent_since = None;
            client.holds = active;
        }
        let asking = self.asking();
        let change = self.groups.answered(member, update, asking);
        self.hear(group, change);
    }

    fn activate(&mut self, group: usize) {
        let asking = self.asking();
        let change = self.groups.activate(NAMES[group], asking);
        if self.clients[group].is_empty() {
            return assert_eq!(change, Err(NoSuchGroup));
        }
        // The operator does not wait for who steps down.
        for client in &mut self.clients[group] {
            client.holds &= client.pending.last().is_none_or(|(_, active)| *active);
        }
        self.hear(group, change.unwrap());
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Join(group, partition) => self.join(group, partition),
            Step::Leave(group, at) => {
                self.at(group, at).into_iter().for_each(|at| self.leave(group, at));
            }
            Step::Answer(group, at, newest) => {
                self.at(group, at).into_iter().for_each(|at| self.answer(group, at, newest));
            }
            Step::AnswerWrong(group, at, update) => {
                let Some(at) = self.at(group, at) else { return };
                let (update, asking) = (update | 1 << 31, self.asking());
                let member = self.clients[group][at].member;
                assert_eq!(self.groups.answered(member, update, asking), None);
            }
            Step::Activate(group) => self.activate(group),
            Step::Wait(ms) => self.now_ms += ms,
        }
        self.check();
    }

    fn check(&self) {
        let mut silent = Vec::new();
        for (group, clients) in self.clients.iter().enumerate() {
            assert!(clients.iter().filter(|client| client.holds).count() <= 1, "two are active");
            let roles = self.groups.consumers(NAMES[group]);
            let roles: Vec<_> = roles.into_iter().flatten().map(|(m, role)| (*m, role)).collect();
            assert!(roles.iter().map(|(member, _)| *member).eq(clients.iter().map(|it| it.member)));
            let turns = roles.iter().filter(|(_, role)| *role != GroupRole::Waiting).count();
            assert_eq!(turns, usize::from(!clients.is_empty()), "one is active or steps down");
            for (client, (_, role)) in clients.iter().zip(roles) {
                assert_eq!(client.holds, role != GroupRole::Waiting);
                if role == GroupRole::Deactivating {
                    assert!(matches!(client.pending.last(), Some((_, false))), "it is awaited");
                }
            }
            let of_group = clients.iter().filter_map(|it| Some((it.silent_since?, it.member)));
            silent.extend(of_group.filter(|(since, _)| since + TIMEOUT_MS <= self.now_ms));
        }
        silent.sort_unstable();
        let overdue = self.groups.overdue(MonotonicMs::from_raw(self.now_ms), TIMEOUT_MS);
        assert!(overdue.eq(silent.iter().map(|(_, member)| member)));
    }

    /// Everybody answers: then the chosen one of each group is active.
    fn settle(&mut self) {
        for group in 0..2 {
            let is_silent = |model: &Self| {
                model.clients[group].iter().position(|client| !client.pending.is_empty())
            };
            let mut n_answers = 0;
            while let Some(at) = is_silent(self) {
                self.answer(group, at, true);
                n_answers += 1;
                assert!(n_answers <= 2 * self.clients[group].len() + 2, "there is no end of it");
            }
            assert_eq!(self.expected(group), None);
        }
        self.check();
    }
}

proptest! {
    #[test]
    fn one_of_a_group_is_active_and_the_next_only_once_it_has_stepped_down(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut model = Model::default();
        steps.iter().for_each(|step| model.run(step));
        model.settle();
        for group in 0..2 {
            (0..model.clients[group].len()).for_each(|_| model.leave(group, 0));
        }
        assert!(model.groups.by_name.is_empty() && model.groups.members.is_empty());
        assert!(model.groups.unanswered.is_empty());
    }
}

fn asking(update: u32) -> Asking {
    Asking { update, now_ms: MonotonicMs::from_raw(0) }
}

#[test]
fn partitions_spread_over_consumers_that_have_them_all() {
    let mut partitions: [Groups<Member>; 3] = Default::default();
    for consumer in 0..3 {
        for (place, groups) in (0..).zip(&mut partitions) {
            let mut change = groups.join("g", Some(place), consumer, consumer, asking(1)).unwrap();
            while let Some(told) = change {
                change = groups.answered(told.consumer, told.update, asking(told.update + 1));
            }
        }
    }
    let active = partitions.map(|groups| {
        let roles: Vec<_> = groups.consumers("g").unwrap().map(|(_, role)| role).collect();
        roles.iter().position(|role| *role == GroupRole::Active)
    });
    assert_eq!(active, [Some(0), Some(1), Some(2)]);
}

#[test]
fn groups_and_their_consumers_are_limited() {
    let mut groups = Groups::default();
    for member in 0..CONSUMERS_PER_GROUP_MAX as u64 {
        groups.join("g", None, member, (), asking(0)).unwrap();
    }
    assert_eq!(groups.join("g", None, u64::MAX, (), asking(0)), Err(JoinRefused::Full));
    for member in 1..GROUPS_PER_STREAM_MAX as u64 {
        let member = member + CONSUMERS_PER_GROUP_MAX as u64;
        groups.join(&member.to_string(), None, member, (), asking(0)).unwrap();
    }
    assert_eq!(groups.join("more", None, u64::MAX, (), asking(0)), Err(JoinRefused::Full));
    assert!(!groups.members.contains_key(&u64::MAX), "a refused one is in no group");
    groups.leave(0, asking(0)).unwrap();
    assert_eq!(groups.join("g", None, 0, (), asking(0)), Ok(None));
}

#[test]
fn a_million_groups_that_come_and_go_leave_nothing_behind() {
    let mut groups = Groups::default();
    for member in 0..1_000_000 {
        let told = groups.join("g", Some(member), member, member, asking(7)).unwrap();
        assert_eq!(told, Some(Change { consumer: member, update: 7, active: true }));
        assert_eq!(groups.leave(member, asking(8)), None);
    }
    assert_eq!(groups.list().count(), 0);
    assert!(groups.members.is_empty() && groups.unanswered.is_empty());
}
