//! The steps from the members that a group has to those that it is to have, one at a time.
//!
//! Each step follows from the members and what is wanted alone: a new leader goes on where the last one was.
//! Nodes that are gone leave before others get a vote: no majority counts on them for longer than it must.

use std::collections::BTreeSet;

use crate::members::{Change, Members, PeerId};

/// Voters of a group whose members are all nodes of the cluster, at most. Further members are learners.
pub const VOTERS_MAX: usize = 7;
/// Entries that a learner may lack when it becomes a voter.
pub const LEARNER_LAG_MAX: u64 = 1_000;

/// A step that a leader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberStep {
    /// Propose the change. It may be refused while another one is under way: the step is then taken again.
    Propose(Change),
    /// Hand the leadership over to this voter: the leader itself is to leave.
    HandOver(PeerId),
}

/// The next step of the leader `me` of a group with these members; none if they are those that are wanted, or
/// learners are not far enough yet. `lag` tells how many entries a member lacks.
pub fn next_member_step(
    members: &Members,
    wanted: &BTreeSet<PeerId>,
    me: PeerId,
    lag: impl Fn(PeerId) -> u64,
) -> Option<MemberStep> {
    let is_leaving = |peer: &PeerId| !wanted.contains(peer);
    let leaving = members.all().find(|peer| *peer != me && is_leaving(peer));
    let is_ready = |peer: &&PeerId| !is_leaving(peer) && lag(**peer) <= LEARNER_LAG_MAX;
    let ready = members.learners.iter().find(is_ready);
    let staying = || members.voters.iter().filter(|peer| !is_leaving(peer));
    let has_room = staying().count() < VOTERS_MAX;
    let heir = staying().min_by_key(|peer| lag(**peer)).filter(|_| is_leaving(&me));
    let missing = wanted.iter().find(|peer| !members.has(**peer));
    let change = leaving
        .map(Change::Remove)
        .or_else(|| ready.filter(|_| has_room).map(|peer| Change::Promote(*peer)))
        .or_else(|| missing.filter(|_| heir.is_none()).map(|peer| Change::AddLearner(*peer)));
    change.map(MemberStep::Propose).or_else(|| heir.map(|peer| MemberStep::HandOver(*peer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::Random;

    fn peers(numbers: std::ops::Range<u64>) -> BTreeSet<PeerId> {
        numbers.map(|number| PeerId(number << 48 | 1)).collect()
    }

    /// Takes steps until none is left; leaders change by chance and when they hand over.
    fn settle(mut members: Members, wanted: &BTreeSet<PeerId>, random: &mut Random) -> Members {
        let mut leader = members.voters[0];
        for index in 0..200 {
            let lags: Vec<u64> = (0..64).map(|_| random.below(3_000) as u64).collect();
            let lag = |peer: PeerId| if index > 150 { 0 } else { lags[usize::from(peer.node())] };
            match next_member_step(&members, wanted, leader, lag) {
                Some(MemberStep::Propose(change)) => {
                    members = members.after(change, index).unwrap();
                    assert!(members.has_voter(leader), "a leader does not remove itself");
                }
                Some(MemberStep::HandOver(heir)) => {
                    assert!(members.has_voter(heir) && !wanted.contains(&leader));
                    leader = heir;
                }
                None if index > 150 => return members,
                None => {}
            }
            if random.percent(20) {
                leader = random.choose(&members.voters).unwrap();
            }
        }
        panic!("no end: {members:?} for {wanted:?}")
    }

    #[test]
    fn members_become_those_that_are_wanted_whoever_leads() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let mut wanted = peers(1..2);
            let voters = wanted.iter().copied().collect();
            let mut members = Members { since: 1, voters, learners: Vec::new() };
            for round in 0..6 {
                let first = random.below(4) as u64 + round;
                wanted = peers(first..first + 1 + random.below(10) as u64);
                members = settle(members, &wanted, &mut random);
                assert_eq!(members.all().collect::<BTreeSet<_>>(), wanted, "seed {seed}");
                let n_voters = members.voters.len();
                assert_eq!(n_voters, wanted.len().min(VOTERS_MAX), "seed {seed}");
            }
        }
    }

    #[test]
    fn the_forgotten_leave_before_others_get_votes() {
        let [voters, learners] = [peers(1..4), peers(4..5)].map(|it| it.into_iter().collect());
        let members = Members { since: 1, voters, learners };
        let (gone, new) = (PeerId(3 << 48 | 1), PeerId(4 << 48 | 1));
        let mut wanted = peers(1..5);
        let step = |wanted: &BTreeSet<PeerId>, lag| {
            next_member_step(&members, wanted, PeerId(1 << 48 | 1), |_| lag)
        };
        assert_eq!(step(&wanted, 1_000), Some(MemberStep::Propose(Change::Promote(new))));
        assert_eq!(step(&wanted, 1_001), None);
        wanted.remove(&gone);
        assert_eq!(step(&wanted, 0), Some(MemberStep::Propose(Change::Remove(gone))));
    }
}
