use super::*;

#[tokio::test]
async fn a_super_stream_is_made_looked_at_and_deleted() {
    let node = start().await;
    let made = json!({"vhost": "/", "name": "s", "partitions": 2, "arguments": {"max-age": "1h"}});
    node.ok("add_super_stream", made.clone()).await;
    assert_eq!(node.refused("add_super_stream", made).await, "invalid");
    let nowhere = json!({"vhost": "none", "name": "s", "binding_keys": ["a"]});
    assert_eq!(node.refused("add_super_stream", nowhere).await, "no_such_vhost");
    let many = json!({"vhost": "/", "name": "many", "partitions": u64::MAX >> 1});
    assert_eq!(node.refused("add_super_stream", many).await, "invalid");
    let first = json!({"vhost": "/", "name": "s-0"});
    let status = node.ok("stream_status", first.clone()).await;
    let fields = json!([{"role": "writer", "node": "rabbit@box", "epoch": 1, "offset": -1,
        "committed_offset": -1, "committed_chunk_id": -1, "first_offset": -1, "readers": 0,
        "segments": 1}]);
    assert_eq!(status, fields);
    assert_eq!(node.ok("restart_stream", first.clone()).await, "rabbit@box");
    let status = node.ok("stream_status", first.clone()).await;
    assert_eq!(status[0]["epoch"], 2);
    let columns = json!({"vhost": "/", "columns": ["name", "committed_offset", "segments"]});
    let queues = node.ok("list_queues", columns).await;
    assert_eq!(queues[0], json!({"name": "s-0", "committed_offset": -1, "segments": 1}));
    let found = node.ok("scrub_stream", json!({"vhost": "/", "name": "s-1"})).await;
    assert_eq!(found, json!({"chunks": 0, "bytes": 0, "damaged": 0, "damage": []}));
    node.ok("delete_super_stream", json!({"vhost": "/", "name": "s"})).await;
    assert_eq!(node.refused("stream_status", first).await, "not_found");
    let gone = json!({"vhost": "/", "name": "s"});
    assert_eq!(node.refused("delete_super_stream", gone).await, "invalid");
    assert_eq!(node.ok("coordinator_status", json!({})).await[0]["Raft State"], "leader");
}

#[tokio::test]
async fn what_a_stream_is_asked_for_is_refused_where_it_cannot_be() {
    let node = start().await;
    node.declare("classic").await;
    node.ok("add_super_stream", json!({"vhost": "/", "name": "s", "binding_keys": ["eu"]})).await;
    let told = |endpoint: &'static str, request: Value| {
        let node = &node;
        async move {
            let answer = node.ask(endpoint, request).await;
            answer["error"]["text"].as_str().unwrap().to_owned()
        }
    };
    let classic = json!({"vhost": "/", "name": "classic", "node": "rabbit@box"});
    let text = told("stream_status", classic.clone()).await;
    assert_eq!(text, "Cannot get stream status of a classic queue");
    assert_eq!(told("restart_stream", classic).await, "Cannot restart a classic queue");
    let replica = |at: &str| json!({"vhost": "/", "name": "s-eu", "node": at});
    node.ok("add_replica", replica("rabbit@box")).await;
    assert_eq!(told("add_replica", replica("rabbit@other")).await, "node_not_running");
    let text = told("delete_replica", replica("rabbit@box")).await;
    assert_eq!(text, "Cannot delete the last member of a stream");
    let named = |stream: &str| json!({"vhost": "/", "stream": stream, "reference": "r"});
    assert_eq!(told("reset_offset", named("none")).await, "The stream does not exist");
    let text = told("reset_offset", named("s-eu")).await;
    assert_eq!(text, "There is no stored offset for this reference, no need to reset");
    for endpoint in ["activate_stream_consumer", "list_stream_group_consumers"] {
        assert_eq!(told(endpoint, named("s-eu")).await, "The group does not exist");
    }
    let none = json!({"vhost": "/", "name": "none"});
    assert_eq!(told("list_stream_tracking", none).await, "The stream does not exist.");
}
