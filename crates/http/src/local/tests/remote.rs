use super::*;
use broker::QueueHomes;

/// A node with the queue `near`, and with `far` and the stream `far.s` on another node, which is down.
async fn with_queues() -> Node {
    let homes =
        QueueHomes::by_rule(|_, _, def| def.name.starts_with("far").then(|| "rabbit@b".into()));
    let node = start_with(BrokerOptions { homes, ..BrokerOptions::default() }).await;
    node.declare("near").await;
    node.declare("far").await;
    node.declare_with("far.s", &[("x-queue-type", "stream")]).await;
    node
}

fn of(queue: &str) -> Value {
    json!({"vhost": "/", "name": queue})
}

#[tokio::test]
async fn queues_of_a_node_that_is_down_have_the_columns_of_their_definitions() {
    let node = with_queues().await;
    let list = async |query: Value| node.ok("GET /queues/{vhost}", query).await;
    let columns =
        ["name", "node", "state", "durable", "messages", "consumers", "members", "online"];
    let near = json!({"name": "near", "node": "rabbit@box", "state": "running", "durable": true,
        "messages": 0, "consumers": 0});
    let far = json!({"name": "far", "node": "rabbit@b", "state": "down", "durable": true});
    let stream = json!({"name": "far.s", "node": "rabbit@b", "state": "down", "durable": true,
        "members": ["rabbit@b"], "online": []});
    assert_eq!(list(json!({"vhost": "/", "columns": columns})).await, json!([far, stream, near]));
    for (flag, names) in
        [("online", &["near"][..]), ("offline", &["far", "far.s"]), ("local", &["near"])]
    {
        let mut query = json!({"vhost": "/", "columns": ["name"]});
        query[flag] = json!(true);
        let listed: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        assert_eq!(list(query).await, Value::from(listed), "{flag}");
    }
    let alone = node.ok("GET /queues/{vhost}/{name}", of("far")).await;
    assert_eq!(alone["policy"], Value::Null);
    assert_eq!((alone.get("consumer_details"), alone.get("message_stats")), (None, None));
}

#[tokio::test]
async fn operators_are_told_that_the_node_of_a_queue_is_down() {
    let node = with_queues().await;
    assert_eq!(
        node.refused("DELETE /queues/{vhost}/{name}/contents", of("far")).await,
        "home_down"
    );
    let why = node.ok("GET /explain/why/{vhost}/{name}", of("far")).await;
    assert_eq!(why["reasons"], json!(["the queue's node is down"]));
    let if_empty = json!({"vhost": "/", "name": "far", "if_empty": true});
    assert_eq!(node.refused("DELETE /queues/{vhost}/{name}", if_empty).await, "not_empty");
    for queue in ["far", "far.s"] {
        let deleted = node.ok("DELETE /queues/{vhost}/{name}", of(queue)).await;
        assert_eq!(deleted["messages"], json!(0));
    }
}
