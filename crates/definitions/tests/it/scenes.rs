//! Single cases that random steps meet too seldom.

use std::sync::Arc;

use amqp091::{ShortString, Value};
use cluster::{Change, GroupStep, LivingNodes, Members, Ticket};
use definitions::{
    AnswerBody, Ask, AskError, Asker, Decision, Question, REQUESTS_REMEMBERED, RequestId,
    StopReason, Surroundings,
};
use meta::{Command, Done, Name, State};
use stdx::Now;

use crate::commands::{create_vhost, queue};
use crate::world::{N, World, everything, peer};

fn declare(name: &str) -> Command {
    Command::DeclareQueue(queue(name))
}

/// A declaration that differs from [`declare`]'s.
fn declare_other(name: &str) -> Command {
    let arguments = [(ShortString::from_static("x-message-ttl"), Value::I32(5))];
    let arguments = arguments.into_iter().collect();
    Command::DeclareQueue(meta::QueueDeclare { arguments, ..queue(name) })
}

/// The decisions that clients were told, but for the first one, in words.
fn decisions(world: &World) -> Vec<&'static str> {
    let word = |decision: &Decision| match decision {
        Decision::Done(done) if done.iter().any(Done::is_change) => "changed",
        Decision::Done(_) => "as it was",
        Decision::WasDone => "was done",
        Decision::Refused(_) => "refused",
    };
    let told = world.told[1..].iter();
    told.map(|it| it.result.as_ref().map_or("failed", |reply| word(&reply.decision))).collect()
}

#[test]
fn a_misfit_stops_one_replica_and_no_other() {
    let mut strange = State::new();
    strange.apply(Now::default(), &create_vhost("/")).unwrap();
    // An image of no entry: version, index, term, no requests.
    let mut image = [&[1][..], &[0; 24]].concat();
    image.extend(everything(&strange));
    let mut world = World::with(1, N, &image);
    world.begin();
    let [(N, StopReason::Misfit { misfit, .. })] = &world.stopped[..] else {
        panic!("{:?}", world.stopped)
    };
    assert_eq!(misfit.fact, "CreateVhost");
    world.client_asks(2, vec![declare("q")], None);
    world.calm_until_told(2);
    assert_eq!(decisions(&world), ["changed"]);
    assert_eq!(world.definitions_of(1), world.definitions_of(2));
    assert_eq!(world.definitions_of(N), (0, everything(&strange)));
    assert_eq!(world.running(N).unwrap().definitions.leader(), None);
}

#[test]
fn a_node_has_1024_asks_at_once_at_most() {
    let mut asker = Asker::new(1, 1);
    let question =
        || Question { commands: vec![create_vhost("v")], basis: None, user: Name::from("guest") };
    for n in 1..=REQUESTS_REMEMBERED {
        assert_eq!(asker.ask(question(), n), Ok(n));
    }
    assert_eq!(asker.ask(question(), 9), Err(AskError::Full));
    let (members, living) = (Members::default(), LivingNodes::default());
    let around = Surroundings { now_ms: 1, leader: None, members: &members, living: &living };
    assert_eq!(asker.poll(around).results, [(1, Err(AskError::NoLeader))]);
    assert_eq!(asker.ask(question(), 9), Ok(REQUESTS_REMEMBERED + 1));
    assert_eq!(asker.ask(question(), 9), Err(AskError::Full));
}

/// Lets a node outside the world ask the leader; returns what it was answered.
fn ask_from_outside(world: &mut World, request: RequestId, attempt: u64) -> Option<AnswerBody> {
    let term = world.running(1).unwrap().definitions.leader().unwrap().term;
    let commands = vec![declare(&format!("{}-{}", request.boot, request.n))];
    let question = Arc::new(Question { commands, basis: None, user: Name::from("guest") });
    world.ask(1, &Ask { request, attempt, term, question });
    (0..5).for_each(|_| world.calm_round());
    world.answers.pop().map(|answer| answer.body)
}

#[test]
fn a_request_below_the_window_is_declined() {
    let mut world = World::new(1);
    world.begin();
    let request = |n| RequestId { node: N + 1, boot: 1, n };
    let is_changed = |answer: &Option<AnswerBody>| {
        let Some(AnswerBody::Decided { decision: Decision::Done(done), .. }) = answer else {
            return false;
        };
        matches!(done[..], [Done::QueueCreated(_)])
    };
    assert!(is_changed(&ask_from_outside(&mut world, request(2000), 1)));
    let oldest = 2001 - REQUESTS_REMEMBERED;
    let below = ask_from_outside(&mut world, request(oldest - 1), 2);
    assert_eq!(below, Some(AnswerBody::Declined));
    assert!(is_changed(&ask_from_outside(&mut world, request(oldest), 3)));
    for (n, attempt) in [(2000, 4), (oldest, 5)] {
        let again = ask_from_outside(&mut world, request(n), attempt);
        let Some(AnswerBody::Decided { decision, .. }) = again else { panic!("{again:?}") };
        assert_eq!(decision, Decision::WasDone);
    }
    let restarted = RequestId { boot: 2, ..request(1) };
    assert!(is_changed(&ask_from_outside(&mut world, restarted, 1)));
    assert_eq!(ask_from_outside(&mut world, request(2001), 6), None, "that start is over");
}

#[test]
fn asks_are_answered_that_are_open_when_the_first_learner_joins() {
    let mut world = World::with(1, 1, &[]);
    world.begin();
    world.client_asks(1, vec![declare("a")], None);
    world.group(1, GroupStep::Member(Ticket(u64::MAX), Change::AddLearner(peer(2))));
    for command in [declare("b"), declare("b"), declare_other("b")] {
        world.client_asks(1, vec![command], None);
    }
    assert_eq!(decisions(&world), [""; 0]);
    world.calm_until_told(5);
    assert_eq!(decisions(&world), ["changed", "changed", "as it was", "refused"]);
    world.client_asks(2, vec![declare("c")], None);
    world.calm_until_told(6);
    assert_eq!(world.running(1).unwrap().definitions.group().members().learners, [peer(2)]);
    assert_eq!(world.definitions_of(1), world.definitions_of(2));
    world.check_end();
}

#[test]
fn what_was_decided_behind_a_refused_proposal_is_taken_back() {
    let mut world = World::new(1);
    world.begin();
    // The second proposal waits for the entry of the first one, and is refused while the leader hands over.
    for command in [declare("a"), declare("b"), declare("b"), declare_other("b")] {
        world.client_asks(1, vec![command], None);
    }
    let n_declined = world.counts.declined;
    world.group(1, GroupStep::Transfer(peer(2)));
    world.commit(1);
    assert_eq!(world.counts.declined - n_declined, 3);
    world.group(1, GroupStep::Tick);
    world.client_asks(1, vec![declare_other("b")], None);
    world.calm_until_told(6);
    let mut told = decisions(&world);
    told.sort_unstable();
    assert_eq!(told, ["as it was", "changed", "changed", "refused", "refused"]);
    world.check_end();
}

#[test]
fn a_leader_that_is_cut_off_does_not_answer_from_old_definitions() {
    let mut world = World::new(1);
    world.begin();
    world.client_asks(1, vec![declare("q")], None);
    world.calm_until_told(2);
    for other in [2, 3] {
        world.cut(1, other);
        world.tell((other, 1), false);
    }
    let deletion = Command::DeleteQueue { vhost: Name::from("/"), name: Name::from("q"), by: None };
    world.client_asks(2, vec![deletion], None);
    world.calm_until_told(3);
    // The first leader does not know that it leads no longer.
    assert_eq!(world.running(1).unwrap().definitions.leader().unwrap().node, 1);
    world.client_asks(1, vec![declare("q")], None);
    (0..20).for_each(|_| world.calm_round());
    assert_eq!(decisions(&world), ["changed", "changed"]);
    world.join(1, 2);
    world.join(1, 3);
    world.calm_until_told(4);
    assert_eq!(decisions(&world), ["changed"; 3]);
    world.check_end();
}
