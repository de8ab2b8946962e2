//! Actions on all that match: what is told before, against what then happens.

use super::http_api::{Api, ask};
use super::support::wait_until;
use amqp091::method::{BasicAck, BasicConsume, BasicQos};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testing::client::Client;

fn names(api: &Api) -> BTreeSet<String> {
    let listed = api.expect(200, "GET /queues/%2F?columns=name", "");
    let listed = listed.as_array().unwrap().iter();
    listed.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

type Matches<'m> = &'m dyn Fn(&str) -> bool;

/// Queues whose names are numbers, and expressions that match some: those that are told go, and no other.
#[test]
fn those_that_are_told_are_deleted() {
    let api = Api::start();
    for n in 0..60 {
        let kind = if n % 7 == 0 { "quorum" } else { "classic" };
        let body = json!({"arguments": {"x-queue-type": kind}}).to_string();
        api.expect(201, &format!("PUT /queues/%2F/{n}"), &body);
    }
    let is_quorum = |name: &str| name.parse::<u64>().unwrap() % 7 == 0;
    let matching: [(&str, Option<&str>, Matches<'_>); 4] = [
        ("^1", None, &|name| name.starts_with('1')),
        ("7$", Some("quorum"), &|name| name.ends_with('7') && is_quorum(name)),
        ("5", Some("classic"), &|name| name.contains('5') && !is_quorum(name)),
        ("", None, &|_| true),
    ];
    for (pattern, kind, matches) in matching {
        let n = names(&api).iter().filter(|name| matches(name)).count();
        let mut body = json!({"pattern": pattern, "type": kind});
        let told = api.expect(200, "POST /bulk/queues/%2F/delete", &body.to_string());
        assert_eq!((&told["matched"], &told["done"]), (&json!(n), &json!(0)), "{pattern}");
        let first: Vec<&str> =
            told["names"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        assert_eq!(first.len(), 20.min(n));
        let before = names(&api);
        assert!(first.iter().all(|name| before.contains(*name) && matches(name)));
        body["expected"] = json!(n + 1);
        api.expect(409, "POST /bulk/queues/%2F/delete", &body.to_string());
        assert_eq!(names(&api), before);
        body["expected"] = json!(n);
        let done = api.expect(200, "POST /bulk/queues/%2F/delete", &body.to_string());
        assert_eq!((&done["done"], &done["failures"]), (&json!(n), &json!([])));
        let after = names(&api);
        let left = before.iter().filter(|name| !matches(name)).cloned();
        assert_eq!(after, left.collect());
    }
    assert_eq!(names(&api).len(), 0);
    for wrong in [r#"{"pattern":"("}"#, "{}", r#"{"pattern":"","expected":"some"}"#] {
        api.expect(400, "POST /bulk/queues/%2F/purge", wrong);
    }
    api.expect(400, "POST /bulk/queues/%2F/fly", r#"{"pattern":""}"#);
    api.expect(404, "POST /bulk/queues/none/purge", r#"{"pattern":""}"#);
}

/// Messages are counted before they go; what one may not do is told queue by queue.
#[test]
fn purges_tell_what_goes_and_what_fails() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    for queue in ["mine", "other"] {
        client.declare(queue);
        (0..3).for_each(|_| client.put_publish(queue, false, b"x"));
        client.wait_for_confirms();
    }
    let told = api.expect(200, "POST /bulk/queues/%2F/purge", r#"{"pattern":"m|o"}"#);
    assert_eq!(told["figures"]["messages_ready"], 6);
    let contents = "DELETE /queues/%2F/mine/contents?";
    let told = api.expect(200, &format!("{contents}dry_run=true"), "");
    assert_eq!((&told["messages_ready"], &told["consumers"]), (&json!(3), &json!(0)));
    api.expect(409, &format!("{contents}expected=2"), "");
    api.expect(400, &format!("{contents}expected=x"), "");
    api.expect(409, "DELETE /queues/%2F/mine?expected=2", "");

    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    let permissions = r#"{"configure":"","write":"","read":"^mine"}"#;
    api.expect(201, "PUT /permissions/%2F/u", permissions);
    let both = r#"{"pattern":"","expected":2}"#;
    let at = api.0.http_address();
    let done = ask(at, "u:p", "POST /bulk/queues/%2F/purge", both).body;
    assert_eq!((&done["done"], &done["failures"][0]["name"]), (&json!(1), &json!("other")));
    assert_eq!(client.declare("mine"), 0);
    assert_eq!(client.declare("other"), 3);
    let done = ask(at, "u:p", "POST /bulk/queues/%2F/delete", both).body;
    assert_eq!((&done["done"], &done["matched"]), (&json!(0), &json!(2)));
    let ctl = |line: &[&str]| api.0.ctl(&[&["-q"], line].concat());
    let asked = ctl(&["purge_queues", "^o"]);
    assert_eq!(asked, "1 match; nothing is done without --expected 1\n  other\n");
    assert_eq!(client.declare("other"), 3);
    assert_eq!(ctl(&["purge_queues", "--expected", "1", "^o"]), "1 of 1 done\n");
    assert_eq!(client.declare("other"), 0);
    assert_eq!(ctl(&["delete_queues", "--expected", "2", "."]), "2 of 2 done\n");
    assert_eq!(names(&api).len(), 0);
}

#[test]
fn connections_that_match_are_closed() {
    let api = Api::start();
    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    let clients: Vec<Client> = (0..3).map(|_| Client::guest(api.0.address())).collect();
    let listed = || api.expect(200, "GET /connections", "").as_array().unwrap().len();
    wait_until("they are there", || listed() == 3);
    let told = |body: &Value| api.expect(200, "POST /bulk/connections", &body.to_string());
    let port = clients[0].local_port();
    let mut body = json!({"pattern": format!(":{port} ->")});
    assert_eq!(told(&body)["matched"], 1);
    body["expected"] = json!(1);
    assert_eq!(told(&body)["done"], 1);
    wait_until("one is closed", || listed() == 2);
    let all = json!({"pattern": "^guest$", "by": "user", "expected": 3});
    api.expect(409, "POST /bulk/connections", &all.to_string());
    // Of others one sees none.
    let of_others = r#"{"pattern":""}"#;
    let seen = ask(api.0.http_address(), "u:p", "POST /bulk/connections", of_others);
    assert_eq!((seen.status, &seen.body["matched"]), (200, &json!(0)));
    let line = ["-q", "close_connections", "--by", "user", "--expected", "2", "guest", "enough"];
    assert_eq!(api.0.ctl(&line), "2 of 2 done\n");
    wait_until("all are closed", || listed() == 0);
    api.expect(400, "POST /bulk/connections", r#"{"pattern":"","by":"shoe"}"#);
}

/// A policy is set if it changes as many objects as were told.
#[test]
fn a_policy_is_set_as_it_was_foretold() {
    let api = Api::start();
    for queue in ["a.1", "a.2", "b"] {
        api.expect(201, &format!("PUT /queues/%2F/{queue}"), "{}");
    }
    let policy =
        json!({"pattern": "^a", "definition": {"max-length": 5}, "apply-to": "queues"}).to_string();
    let told = api.expect(200, "POST /explain/policy/%2F/p", &policy);
    assert_eq!(told["changed_count"], 2);
    api.expect(201, "PUT /queues/%2F/a.3", "{}");
    api.expect(409, "PUT /policies/%2F/p?expected=2", &policy);
    api.expect(404, "GET /policies/%2F/p", "");
    api.expect(201, "PUT /policies/%2F/p?expected=3", &policy);
    let queue = api.expect(200, "GET /queues/%2F/a.3", "");
    assert_eq!(queue["effective_policy_definition"]["max-length"], 5);
}

/// Of each type of queue: the client is told, keeps what it holds, and may consume again.
#[test]
fn a_cancelled_consumer_gets_no_more_and_its_channel_keeps_what_it_holds() {
    let api = Api::start();
    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    api.expect(201, "PUT /permissions/%2F/u", r#"{"configure":"","write":"","read":""}"#);
    for kind in ["classic", "quorum", "stream"] {
        let body = json!({"arguments": {"x-queue-type": kind}}).to_string();
        api.expect(201, &format!("PUT /queues/%2F/{kind}"), &body);
        let mut client = Client::guest(api.0.address());
        let one = BasicQos { prefetch_count: 1, ..BasicQos::default() };
        assert_eq!(client.ask(1, one), "basic.qos-ok");
        let queue = kind.as_bytes();
        let consume = BasicConsume { queue, consumer_tag: b"t", ..BasicConsume::default() };
        client.say(1, consume);
        assert_eq!(client.next().show(), "basic.consume-ok");
        (0..2).for_each(|n| client.put_publish(kind, true, &[n]));
        client.flush();
        let first = client.message().unwrap();
        let facts = || api.expect(200, &format!("GET /queues/%2F/{kind}"), "");
        wait_until("it is a consumer", || facts()["consumer_details"][0]["consumer_tag"] == "t");
        let channel = facts()["consumer_details"][0]["channel_details"]["name"].clone();
        let channel = channel.as_str().unwrap();
        let address = format!("/leveret/consumers/%2F/{kind}/t");
        let refused = ask(api.0.http_address(), "u:p", &format!("DELETE {address}"), "");
        assert_eq!(refused.status, 401);
        api.expect(404, &format!("DELETE {address}?channel=other"), "");
        api.expect(404, &format!("DELETE {address}x"), "");
        if kind == "quorum" {
            api.0.ctl(&["cancel_consumer", "--channel", channel, kind, "t"]);
        } else {
            let channel = channel.replace(' ', "%20").replace('>', "%3E");
            api.expect(204, &format!("DELETE {address}?channel={channel}"), "");
        }
        assert_eq!(client.next().show(), "basic.cancel");
        assert_eq!(facts()["consumers"], 0);
        client.say(1, BasicAck { delivery_tag: first.tag, multiple: false });
        client.say(1, consume);
        assert_eq!(client.next().show(), "basic.consume-ok");
        if kind != "stream" {
            assert_eq!(client.message().unwrap().body, [1], "{kind}");
        }
    }
}
