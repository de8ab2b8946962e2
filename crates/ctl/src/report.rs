//! `report`: what a node's operator would be asked for, one listing after the other.

use crate::failure::Failure;
use crate::output::{Answer, ListingColumn};
use crate::run::Terminal;
use crate::verb::{Invocation, Verb};
use crate::{run, run_with};
use serde_json::{Map, Value};
use stdx::words;

/// Verbs whose output the report has of the node.
const OF_NODE: &str = "\
    status, cluster_status, environment, list_connections, list_channels, list_users, \
    list_global_parameters";

/// Verbs whose output the report has of each virtual host.
const OF_VHOST: &str = "\
    list_queues, list_exchanges, list_bindings, list_permissions, list_policies, \
    list_operator_policies, list_parameters";

pub(crate) fn report(invocation: &Invocation) -> Result<Answer, Failure> {
    let vhosts = run::ask(invocation, "GET /vhosts?columns=name", Map::new())?;
    let mut text = String::new();
    for name in words(OF_NODE) {
        text.push_str(&section(invocation, name, None)?);
    }
    let name = |vhost: &Value| vhost.get("name").and_then(Value::as_str).map(str::to_owned);
    for vhost in vhosts.as_array().into_iter().flatten().filter_map(name) {
        for name in words(OF_VHOST) {
            text.push_str(&section(invocation, name, Some(&vhost))?);
        }
    }
    Ok(Answer::Text(text.trim_end().to_owned()))
}

/// A verb's output with all the columns it has.
fn section(
    invocation: &Invocation,
    name: &'static str,
    vhost: Option<&str>,
) -> Result<String, Failure> {
    let columns = invocation.tool.find(name).and_then(Verb::columns);
    let columns =
        ListingColumn::all(columns.map_or("", |columns| columns.known)).map(|it| it.title);
    let mut given: Vec<String> = std::iter::once(name).chain(columns).map(str::to_owned).collect();
    let address = &invocation.address;
    given.extend(["--data-dir".to_owned(), address.data_dir.display().to_string()]);
    if address.is_named {
        given.extend(["--node".to_owned(), address.node.clone()]);
    }
    if let Some(vhost) = vhost {
        given.extend(["--vhost".to_owned(), vhost.to_owned()]);
    }
    let mut shown = Vec::new();
    let mut terminal = Terminal { input: &mut std::io::empty(), output: &mut shown };
    run_with(&invocation.tool, given, &mut terminal)?;
    Ok(format!("{}\n", String::from_utf8_lossy(&shown)))
}
