//! docs/security.md says of every request what bounds its cost.

use amqp091::MethodId;
use std::collections::BTreeSet;
use streamproto::Key;

const SECURITY: &str = include_str!("../../../../docs/security.md");
const ROUTES: &str = include_str!("../../../../docs/http-api.md");

/// Methods and commands that only a node sends.
const OF_NODE: [&str; 9] = [
    "basic.deliver",
    "basic.get-empty",
    "basic.return",
    "connection.secure",
    "connection.start",
    "connection.tune",
    "Deliver",
    "MetadataUpdate",
    "PublishConfirm",
];

/// The first cells of the table that follows a sentence, a name each, with the second cell.
fn entries(sentence: &str) -> Vec<(String, String)> {
    let (_, rest) = SECURITY.split_once(sentence).expect("the sentence stands in docs/security.md");
    let table = rest.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = table.skip(1).take_while(|line| line.starts_with('|'));
    let named = |row: &str| -> Vec<(String, String)> {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = cells[1].split(", ").map(|name| name.trim_matches('`').to_owned());
        names.map(|name| (name, cells[2].to_owned())).collect()
    };
    rows.flat_map(named).collect()
}

/// Every name has one entry that says something, and nothing else has one.
fn expect_entries(sentence: &str, names: &[&str]) {
    let entries = entries(sentence);
    assert!(entries.iter().all(|(_, bound)| !bound.is_empty()), "{entries:?}");
    let listed: BTreeSet<&str> = entries.iter().map(|(name, _)| &**name).collect();
    assert_eq!(listed.len(), entries.len(), "a name stands twice: {entries:?}");
    assert_eq!(listed, names.iter().copied().collect(), "{sentence}");
}

#[test]
fn every_route_has_a_cost_with_bounds() {
    let costs = ROUTES.lines().filter(|line| line.starts_with("| `"));
    let costs: BTreeSet<&str> = costs.map(|line| line.split('|').nth(3).unwrap().trim()).collect();
    expect_entries("Routes of the HTTP API by their cost", &Vec::from_iter(costs));
}

#[test]
fn every_method_of_amqp_has_bounds() {
    let names = MethodId::ALL.iter().filter_map(|id| id.name());
    let is_answer = |name: &str| name.ends_with("-ok") && !is_answer_of_client(name);
    let names: Vec<&str> =
        names.filter(|name| !is_answer(name) && !OF_NODE.contains(name)).collect();
    expect_entries("Methods of AMQP 0-9-1 that a client sends", &names);
}

fn is_answer_of_client(name: &str) -> bool {
    ["connection.start-ok", "connection.secure-ok", "connection.tune-ok", "connection.close-ok"]
        .contains(&name)
        || ["channel.flow-ok", "channel.close-ok"].contains(&name)
}

#[test]
fn every_command_of_the_stream_protocol_has_bounds() {
    let names = Key::ALL.iter().map(|key| key.name()).filter(|name| !OF_NODE.contains(name));
    let names: Vec<&str> = names.filter(|name| *name != "PublishError").collect();
    expect_entries("Commands of the stream protocol that a client sends", &names);
}
