//! The rules of forming, one by one.

use forming::{
    Forming, FormingAnswer, FormingAsk, FormingSettings, FormingStep, FreshNode, MakerPromise,
};
use log::ClusterId;
use std::collections::BTreeSet;
use stdx::MonotonicMs;

fn names(names: &str) -> BTreeSet<String> {
    names.chars().map(String::from).collect()
}

fn at(ms: u64) -> MonotonicMs {
    MonotonicMs::from_raw(ms)
}

fn settings(me: char, list: &str) -> FormingSettings {
    let (me, names) = (me.to_string(), names(list));
    FormingSettings { me, names, retry_interval_ms: 500, retry_limit: None }
}

fn promise(maker: char, attempt: u64) -> MakerPromise {
    MakerPromise { maker: maker.to_string(), attempt }
}

fn fresh(name: char, list: &str, promise: Option<MakerPromise>) -> FreshNode {
    FreshNode { name: name.to_string(), hears_majority: true, promise, names: names(list) }
}

fn hear(forming: &mut Forming, node: FreshNode) -> Vec<FormingStep> {
    let mut steps = Vec::new();
    forming.answered(FormingAnswer::Fresh { node, over: None }, at(0), &mut steps);
    steps
}

fn durable(forming: &mut Forming) -> Vec<FormingStep> {
    let mut steps = Vec::new();
    forming.promise_durable(at(0), &mut steps);
    steps
}

fn written(steps: &[FormingStep]) -> Option<MakerPromise> {
    let [FormingStep::WritePromise(promise)] = steps else { panic!("{steps:?}") };
    promise.clone()
}

#[test]
fn a_node_without_peers_makes_its_own_cluster_at_once() {
    let mut forming = Forming::new(settings('a', ""), None, 7, at(0));
    let mut steps = Vec::new();
    forming.tick(at(0), &mut steps);
    assert_eq!((steps, forming.due()), (vec![FormingStep::Make], MonotonicMs::NEVER));
}

#[test]
fn a_node_that_hears_a_member_joins_it() {
    let mut forming = Forming::new(settings('a', "abc"), None, 7, at(0));
    let mut steps = Vec::new();
    let member = FormingAnswer::Member { name: "c".to_owned(), cluster: ClusterId(3) };
    forming.answered(member, at(0), &mut steps);
    assert_eq!(steps, [FormingStep::Join { via: "c".to_owned(), cluster: ClusterId(3) }]);
}

#[test]
fn a_node_counts_once_its_name_is_known() {
    let mut forming = Forming::new(settings('a', "axy"), None, 7, at(0));
    assert_eq!(hear(&mut forming, fresh('b', "abc", None)), []);
    forming.set_names(names("bc"));
    let own = written(&hear(&mut forming, fresh('b', "abc", None)));
    assert_eq!(durable(&mut forming).len(), 2, "the others are asked");
    assert_eq!(hear(&mut forming, fresh('b', "abc", own)), [FormingStep::Make]);
}

#[test]
fn a_majority_of_promises_makes_the_cluster() {
    let mut forming = Forming::new(settings('a', "abcde"), None, 7, at(0));
    assert_eq!(hear(&mut forming, fresh('b', "abcde", None)), []);
    let steps = hear(&mut forming, fresh('c', "abcde", None));
    let own = written(&steps).unwrap();
    assert_eq!(own.maker, "a");
    durable(&mut forming);
    assert_eq!(hear(&mut forming, fresh('b', "abcde", Some(own.clone()))), []);
    let steps = hear(&mut forming, fresh('c', "abcde", Some(own)));
    assert_eq!(steps, [FormingStep::Make]);
}

#[test]
fn a_promise_counts_only_with_a_majority_of_its_own_list() {
    let own = promise('a', 1);
    let mut forming = Forming::new(settings('a', "abc"), Some(own.clone()), 7, at(0));
    assert_eq!(hear(&mut forming, fresh('b', "abcdef", Some(own.clone()))), []);
    assert_eq!(hear(&mut forming, fresh('c', "abc", Some(own))), [FormingStep::Make]);
}

#[test]
fn promises_of_an_ended_attempt_count_no_more() {
    let old = promise('b', 1);
    let mut forming = Forming::new(settings('b', "abcde"), Some(old.clone()), 7, at(0));
    hear(&mut forming, fresh('c', "abcde", Some(old.clone())));
    hear(&mut forming, fresh('d', "abcde", None));
    // A smaller name that can make the cluster: the attempt ends, and is over once that is durable.
    let steps = hear(&mut forming, fresh('a', "abcde", Some(promise('a', 5))));
    assert_eq!(written(&steps), Some(promise('a', 5)));
    let ask = FormingAsk { node: fresh('d', "abcde", Some(old.clone())), wants_back: false };
    let over = |forming: &mut Forming| {
        let mut steps = Vec::new();
        match forming.asked(ask.clone(), at(0), &mut steps) {
            FormingAnswer::Fresh { over, node } => {
                assert_eq!(steps, []);
                (over, node.promise)
            }
            FormingAnswer::Member { .. } => panic!("a fresh node is no member"),
        }
    };
    assert_eq!(over(&mut forming), (None, None));
    durable(&mut forming);
    assert_eq!(over(&mut forming), (Some(1), Some(promise('a', 5))));
}

#[test]
fn a_promise_to_another_maker_ends_only_by_that_maker() {
    let held = promise('c', 1);
    let mut forming = Forming::new(settings('b', "abcde"), Some(held.clone()), 7, at(0));
    assert_eq!(hear(&mut forming, fresh('a', "abcde", Some(promise('a', 5)))), []);
    let mut steps = Vec::new();
    forming.tick(at(0), &mut steps);
    let wants_back = steps.iter().filter_map(|step| {
        let FormingStep::Ask { to, ask } = step else { return None };
        ask.wants_back.then_some(to.as_str())
    });
    assert_eq!(wants_back.collect::<Vec<_>>(), ["c"]);
    let mut steps = Vec::new();
    let node = fresh('c', "abcde", None);
    forming.answered(FormingAnswer::Fresh { node, over: Some(1) }, at(0), &mut steps);
    assert_eq!(written(&steps), Some(promise('a', 5)));
}

#[test]
fn a_maker_ends_its_attempt_for_a_node_that_wants_its_promise_back() {
    let own = promise('c', 1);
    let mut forming = Forming::new(settings('c', "abcde"), Some(own.clone()), 7, at(0));
    let ask = FormingAsk { node: fresh('d', "abcde", Some(own)), wants_back: true };
    let mut steps = Vec::new();
    forming.asked(ask, at(0), &mut steps);
    assert_eq!(written(&steps), None);
}

#[test]
fn a_minority_tells_whom_it_waits_for_and_gives_up_at_a_limit() {
    let settings = FormingSettings { retry_limit: Some(12), ..settings('b', "abcde") };
    let mut forming = Forming::new(settings, Some(promise('d', 4)), 7, at(0));
    hear(&mut forming, fresh('c', "abcde", None));
    let mut told = Vec::new();
    for _ in 0..20 {
        let mut steps = Vec::new();
        let now = forming.due();
        forming.tick(now, &mut steps);
        told.extend(steps.into_iter().filter_map(|step| match step {
            FormingStep::Report(wait) => Some((now.get(), false, wait.to_string())),
            FormingStep::GiveUp(wait) => Some((now.get(), true, wait.to_string())),
            FormingStep::Ask { .. }
            | FormingStep::WritePromise(_)
            | FormingStep::Make
            | FormingStep::Join { .. } => None,
        }));
    }
    let text = "waiting for 3 of 5 nodes to form a cluster; no answer from a, c, d, e; d may have made the \
                cluster already: start it, or, if its data is lost, reset this node";
    assert_eq!(told[0], (5_000, false, text.to_owned()));
    assert!(told.iter().any(|(ms, is_end, _)| *ms == 6_000 && *is_end), "{told:?}");
}
