use super::*;
use std::collections::BTreeSet;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-api.md");

#[test]
#[expect(clippy::disallowed_methods, reason = "a page of the repository")]
fn the_page_is_up_to_date() {
    if std::env::var_os("LEVERET_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, markdown()).unwrap();
    }
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(committed == markdown(), "docs/http-api.md is stale: run `cargo xtask docs`");
}

#[test]
fn every_line_is_there_once() {
    let mut seen = BTreeSet::new();
    for route in ROUTES {
        assert!(seen.insert((route.method.as_str(), route.template)), "{}", route.template);
        assert!(route.template.starts_with('/') && !route.template.ends_with('/'));
        assert!(!route.summary.is_empty());
    }
}

/// A change that takes its time is not taken for a constant one.
#[test]
fn changes_have_their_true_costs() {
    let later = ROUTES.iter().filter(|it| matches!(it.run, Run::Later(_)));
    let constant: Vec<_> = later.filter(|it| it.cost == Cost::Constant).collect();
    // It names the one message that it drops.
    let dropped = "/leveret/exchanges/{vhost}/{exchange}/delayed/{id}";
    let is_drop = |it: &Route| (&it.method, it.template) == (&Method::DELETE, dropped);
    assert!(matches!(constant.as_slice(), [one] if is_drop(one)), "{}", constant.len());
    let documents = ROUTES.iter().filter(|it| it.is_document && matches!(it.run, Run::Change(_)));
    assert!(documents.clone().count() == 3 && documents.clone().all(|it| it.cost == Cost::Long));
    let is_scrub = |it: &&Route| it.template.ends_with("/scrub");
    assert_eq!(ROUTES.iter().find(is_scrub).map(|it| it.cost), Some(Cost::Job));
}

const PAGE_HEAD: &str = "\
# HTTP API

Generated from the route table (`crates/http/src/routes.rs`). Requests, responses and errors are RabbitMQ's: see
its [reference](https://www.rabbitmq.com/docs/http-api-reference), and [compatibility](compatibility.md) for the
differences. `OPTIONS` and `Allow` list a path's methods, each `GET` route also serves `HEAD`, and
`/api/openapi.json` is this table as OpenAPI. *needs*: the lowest user tag that may use the route, or for
*virtual host* any permission in the path's virtual host; *cost*: the upper bound of a request's cost
([security](security.md#cost-of-requests)).

In a [cluster](clusters.md) lists of queues, connections, channels, consumers, sessions, publishers and nodes show
those of all nodes, with `local=true` those of the node that is asked; the header `leveret-unanswered` names the
nodes that did not answer.
";

/// The page `docs/http-api.md`.
fn markdown() -> String {
    let mut page = String::from(PAGE_HEAD);
    let groups: BTreeSet<&str> = ROUTES.iter().map(|route| route.group.as_str()).collect();
    for group in groups {
        let head = format!("\n## {group}\n\n| request | needs | cost | |\n|---|---|---|---|\n");
        page.push_str(&head);
        for route in ROUTES.iter().filter(|route| route.group.as_str() == group) {
            let Route { method, template, needs, summary, .. } = route;
            let (needs, cost) = (needs.as_str(), route.cost.as_str());
            page.push_str(&format!(
                "| `{method} /api{template}` | {needs} | {cost} | {summary} |\n"
            ));
        }
    }
    page
}
