//! Reasons that the HTTP API gives, against what then happens.

use super::http_api::{Api, ask};
use serde_json::json;

#[test]
fn settings_have_their_origins_and_policies_their_reasons() {
    let api = Api::start();
    let arguments = r#"{"arguments":{"x-max-length":50,"x-message-ttl":1000}}"#;
    api.expect(201, "PUT /queues/%2F/q.one", arguments);
    let policy = r#"{"pattern":"^q","definition":{"max-length":10,"expires":60000},"priority":1}"#;
    let foretold = api.expect(200, "POST /explain/policy/%2F/short", policy);
    assert_eq!(foretold["changed_count"], 1);
    let [change] = &foretold["changes"].as_array().unwrap()[..] else { panic!("{foretold}") };
    assert_eq!(change["name"], "q.one");
    let before = &api.expect(200, "GET /queues/%2F/q.one", "")["effective_policy_definition"];
    assert_eq!(*before, change["before"]);
    api.expect(201, "PUT /policies/%2F/short", policy);
    let after = &api.expect(200, "GET /queues/%2F/q.one", "")["effective_policy_definition"];
    assert_eq!(*after, change["after"]);
    let other = r#"{"pattern":"^x","definition":{"max-length":1}}"#;
    api.expect(201, "PUT /policies/%2F/other", other);
    api.expect(
        201,
        "PUT /operator-policies/%2F/op",
        r#"{"pattern":"","definition":{"expires":9}}"#,
    );

    let told = api.expect(200, "GET /explain/queue/%2F/q.one", "");
    let of = |name: &str| {
        let settings = told["settings"].as_array().unwrap();
        let found = settings.iter().find(|it| it["name"] == name).unwrap();
        (found["value"].clone(), found["origin"].clone())
    };
    assert_eq!(of("max-length"), (json!(10), json!("policy")));
    assert_eq!(of("message-ttl"), (json!(1000), json!("argument")));
    assert_eq!(of("expires"), (json!(9), json!("operator policy")));
    let applies: Vec<_> = (told["policies"].as_array().unwrap().iter())
        .map(|it| (it["name"].clone(), it["applies"].clone()))
        .collect();
    assert_eq!(applies, [(json!("short"), json!(true)), (json!("other"), json!(false))]);
    assert_eq!(told["policies"][1]["reason"], "its pattern does not match the name");
    api.expect(404, "GET /explain/queue/%2F/none", "");
    let wrong = r#"{"pattern":"(","definition":{"max-length":1}}"#;
    api.expect(400, "POST /explain/policy/%2F/p", wrong);
}

#[test]
fn permissions_are_explained_as_they_are() {
    let api = Api::start();
    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    let explained =
        |query: &str| api.expect(200, &format!("GET /explain/permission/%2F/u?{query}"), "");
    let declare = "PUT /queues/%2F/mine.q";
    let at = api.0.http_address();
    let told = explained("name=mine.q&operation=configure");
    assert_eq!(told["reason"], "the user has no permissions in the virtual host");
    assert_eq!(ask(at, "u:p", declare, "{}").status, 401);
    let permissions = r#"{"configure":"^mine","write":"","read":".*"}"#;
    api.expect(201, "PUT /permissions/%2F/u", permissions);
    let told = explained("name=mine.q&operation=configure");
    assert_eq!((&told["allowed"], &told["pattern"]), (&json!(true), &json!("^mine")));
    assert_eq!(ask(at, "u:p", declare, "{}").status, 201);
    let told = explained("kind=exchange&name=amq.topic&operation=write&routing_key=k");
    assert_eq!((&told["allowed"], &told["pattern"]), (&json!(false), &json!("")));
    api.expect(400, "GET /explain/permission/%2F/u?name=q&operation=fly", "");
    api.expect(400, "GET /explain/permission/%2F/u?name=q&operation=read&kind=user", "");
    assert_eq!(ask(at, "u:p", "GET /explain/permission/%2F/u?operation=read", "").status, 401);
}
