//! The table of routes as a page for people.

use super::ROUTES;
use std::collections::BTreeSet;
use std::sync::LazyLock;

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <title>HTTP API</title>\n<h1>HTTP API</h1>\n\
    <p>Responses are JSON; authenticate with HTTP basic authentication. \
    <code>/api/openapi.json</code> is this table as OpenAPI.</p>\n";

static PAGE: LazyLock<String> = LazyLock::new(written);

/// The page; it needs no login.
pub(crate) fn page() -> &'static str {
    &PAGE
}

fn written() -> String {
    let mut page = String::from(HEAD);
    let groups: BTreeSet<&str> = ROUTES.iter().map(|route| route.group.as_str()).collect();
    for group in groups {
        page.push_str(&format!(
            "<h2>{group}</h2>\n<table>\n<tr><th>request</th><th>needs</th><th></th></tr>\n"
        ));
        for route in ROUTES.iter().filter(|route| route.group.as_str() == group) {
            page.push_str(&format!(
                "<tr><td><code>{} /api{}</code></td><td>{}</td><td>{}</td></tr>\n",
                route.method,
                route.template,
                route.needs.as_str(),
                escaped(route.summary)
            ));
        }
        page.push_str("</table>\n");
    }
    page.push_str("</html>\n");
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
