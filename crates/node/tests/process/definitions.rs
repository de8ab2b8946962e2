//! Definitions that are imported, at the start and by an operator, and exported.

use super::support::node::Node;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use testing::client::{Client, Login};

fn hare() -> Login<'static> {
    Login { user: "hare", password: "carrot", vhost: "burrow", ..Login::default() }
}

const DOCUMENT: &str = r#"{
    "rabbitmq_version": "4.4.0",
    "bindings": [{"vhost": "burrow", "source": "x", "destination": "q",
        "destination_type": "queue", "routing_key": "k", "arguments": {}}],
    "queues": [
        {"vhost": "burrow", "name": "q", "durable": true, "arguments": {"x-max-length": 5}},
        {"vhost": "burrow", "name": "votes", "type": "quorum", "durable": true,
            "arguments": {"x-queue-type": "quorum"}}],
    "exchanges": [{"vhost": "burrow", "name": "x", "type": "direct", "durable": true}],
    "permissions": [{"user": "hare", "vhost": "burrow",
        "configure": ".*", "write": ".*", "read": ".*"}],
    "users": [{"name": "hare", "password": "carrot", "tags": ["administrator"]}],
    "vhosts": [{"name": "burrow"}]
}"#;

/// A directory with a file of definitions in it.
fn written(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("definitions.json");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

fn setting(key: &str, path: &Path) -> String {
    format!("{key}={}", path.display())
}

/// Users, queues and bindings are there, the default user and virtual host are not.
#[test]
fn a_node_starts_with_definitions() {
    let (dir, path) = written(DOCUMENT);
    let mut node = Node::start(&[&setting("load_definitions", &path)]);
    let mut client = Client::login(node.address(), hare());
    client.open_channel(1);
    client.put_content("x", "k", 2, b"m");
    client.flush();
    client.select_confirms();
    client.put_content("x", "k", 2, b"m");
    client.flush();
    client.wait_for_confirms();
    assert_eq!(node.ctl(&["-q", "list_users"]), "user\ttags\nhare\t[administrator]\n");
    assert_eq!(node.ctl(&["-q", "list_vhosts"]), "name\nburrow\n");
    assert_eq!(
        node.ctl(&["-q", "list_queues", "-p", "burrow"]),
        "name\tmessages\nq\t2\nvotes\t0\n"
    );
    node.expect_logged(1, "definitions.json: 7 changes");
    drop(client);
    // At the next start everything is there already.
    node.stop_and_start();
    node.expect_logged(1, "definitions.json: 0 changes");
    std::fs::write(&path, r#"{"vhosts": [{"name": "burrow"}, {"name": "form"}]}"#).unwrap();
    node.stop_and_start();
    assert_eq!(node.ctl(&["-q", "list_vhosts"]), "name\nburrow\nform\n");
    node.end_well();
    drop(dir);
}

#[test]
fn definitions_may_lie_in_a_directory_and_are_skipped_when_unchanged() {
    let (dir, _) = written(DOCUMENT);
    std::fs::write(dir.path().join("more.json"), r#"{"vhosts": [{"name": "form"}]}"#).unwrap();
    std::fs::write(dir.path().join(".hidden"), "not JSON").unwrap();
    let settings = [
        "definitions.import_backend=local_filesystem".to_owned(),
        setting("definitions.local.path", dir.path()),
        "definitions.skip_if_unchanged=true".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut node = Node::start(&settings);
    assert_eq!(node.ctl(&["-q", "list_vhosts"]), "name\nburrow\nform\n");
    node.ctl(&["delete_vhost", "form"]);
    node.stop_and_start();
    assert_eq!(node.ctl(&["-q", "list_vhosts"]), "name\nburrow\n");
    std::fs::write(dir.path().join("more.json"), r#"{"vhosts": [{"name": "den"}]}"#).unwrap();
    node.stop_and_start();
    assert_eq!(node.ctl(&["-q", "list_vhosts"]), "name\nburrow\nden\n");
    // Not what users see of the cluster.
    let exported = node.ctl(&["export_definitions", "-"]);
    assert!(!exported.contains("hash_value"), "{exported}");
    node.end_well();
}

/// As clusters of RabbitMQ export them.
#[test]
fn quorum_queues_and_streams_are_imported_as_they_are() {
    let (dir, path) = written(
        r#"{"vhosts": [{"name": "/", "default_queue_type": "quorum",
                "metadata": {"default_queue_type": "quorum"}}],
            "policies": [{"vhost": "/", "name": "q", "pattern": "^q", "apply-to": "quorum_queues",
                "definition": {"delivery-limit": 10, "target-group-size": 3, "consumer-timeout": 60000,
                    "consumer-disconnected-timeout": 30000, "delayed-retry-type": "all",
                    "delayed-retry-min": 1000, "queue-leader-locator": "balanced"}}],
            "queues": [
                {"vhost": "/", "name": "q", "durable": true, "arguments": {"x-queue-type": "quorum",
                    "x-quorum-initial-group-size": 3, "x-quorum-target-group-size": 5,
                    "x-queue-leader-locator": "balanced", "x-delivery-limit": -1,
                    "x-max-in-memory-length": 5, "x-consumer-disconnected-timeout": 10000}},
                {"vhost": "/", "name": "s", "type": "stream", "durable": true, "arguments": {
                    "x-queue-type": "stream", "x-initial-cluster-size": 3, "x-max-age": "7D"}}]}"#,
    );
    let mut node = Node::start(&[]);
    let told = node.ctl(&["import_definitions", path.to_str().unwrap(), "--strict"]);
    assert!(told.ends_with("Successfully imported definitions: 4 changes\n"), "{told}");
    let queues = node.ctl(&["-q", "list_queues", "name", "type", "policy", "members"]);
    let members = node.ctl(&["-q", "quorum_status", "q", "--formatter", "csv"]);
    let name =
        members.lines().nth(1).and_then(|row| row.split(',').next()).unwrap().trim_matches('"');
    let rows = format!("q\tquorum\tq\t[{name}]\ns\tstream\t\t[{name}]\n");
    assert_eq!(queues, format!("name\ttype\tpolicy\tmembers\n{rows}"));
    node.end_well();
    drop(dir);
}

#[test]
fn a_node_does_not_start_on_definitions_that_cannot_be() {
    let (dir, path) = written(r#"{"queues": [{"vhost": "nowhere", "name": "q"}]}"#);
    let failed =
        |path: &Path| Node::try_start(&[&setting("load_definitions", path)]).err().unwrap();
    let told = failed(&path);
    assert!(
        told.contains("queue 'q' in vhost 'nowhere': virtual host 'nowhere' does not exist"),
        "{told}"
    );
    std::fs::write(&path, "{").unwrap();
    assert!(failed(&path).contains("definitions.json: definitions: not JSON"));
    assert!(failed(&dir.path().join("gone")).contains("cannot read the definitions in"));
}

#[test]
fn what_one_node_exports_another_imports() {
    let (dir, path) = written(DOCUMENT);
    let given = path.to_str().unwrap();
    let first = Node::start(&[]);
    let told = first.ctl(&["import_definitions", given]);
    assert_eq!(
        told,
        format!(
            "Importing definitions in JSON from a file at \"{given}\" ...\n\
             Successfully imported definitions: 7 changes\n"
        )
    );
    first.ctl(&["set_operator_policy", "-p", "burrow", "o", "^q", r#"{"max-length":3}"#]);
    first.ctl(&["set_vhost_limits", "-p", "burrow", r#"{"max-queues":10}"#]);
    let exported = dir.path().join("exported.json");
    let exported = exported.to_str().unwrap();
    assert_eq!(
        first.ctl(&["export_definitions", exported]),
        format!("Exporting definitions in JSON to a file at \"{exported}\" ...\n")
    );
    let second = Node::start(&[]);
    second.ctl(&["import_definitions", exported, "-q"]);
    let document = first.ctl(&["export_definitions", "-"]);
    assert_eq!(second.ctl(&["export_definitions", "-"]), document);
    assert_eq!(document, std::fs::read_to_string(exported).unwrap());
    // One virtual host into another.
    let one = dir.path().join("one.json");
    let one = one.to_str().unwrap();
    first.ctl(&["export_definitions", one, "--vhost", "burrow"]);
    second.ctl(&["add_vhost", "copy"]);
    second.ctl(&["import_definitions", one, "--vhost", "copy"]);
    assert_eq!(second.ctl(&["-q", "list_queues", "-p", "copy", "name"]), "name\nq\nvotes\n");
    first.stop();
    second.stop();
}

#[test]
fn new_virtual_hosts_get_what_the_configuration_says() {
    let node = Node::start(&[
        "default_limits.vhosts.1.pattern=^bur",
        "default_limits.vhosts.1.max_queues=1",
        "default_policies.operator.short.vhost_pattern=^bur",
        "default_policies.operator.short.max_length=3",
        "default_users.hare.vhost_pattern=^(bur|/)",
        "default_users.hare.password=carrot",
        "default_users.hare.tags=monitoring",
    ]);
    let users = "user\ttags\nguest\t[administrator]\nhare\t[monitoring]\n";
    assert_eq!(node.ctl(&["-q", "list_users"]), users);
    node.ctl(&["add_vhost", "burrow"]);
    let mut client = Client::login(node.address(), hare());
    client.open_channel(1);
    client.declare("q");
    for _ in 0..5 {
        client.put_publish("q", true, b"m");
    }
    client.flush();
    assert_eq!(client.declare("q"), 3);
    assert_eq!(node.ctl(&["-q", "list_vhost_limits", "-p", "burrow"]).trim(), "{\"max-queues\":1}");
    assert!(node.ctl(&["-q", "list_operator_policies", "-p", "burrow"]).contains("short"));
    assert_eq!(node.ctl(&["-q", "list_vhost_limits"]).trim(), "");
    drop(client);
    node.stop();
}
