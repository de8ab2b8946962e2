use super::*;

#[tokio::test]
async fn a_super_stream_is_made_looked_at_and_deleted() {
    let node = start().await;
    let made = json!({"vhost": "/", "name": "s", "partitions": 2, "arguments": {"max-age": "1h"}});
    node.ok("PUT /stream/super-streams/{vhost}/{name}", made.clone()).await;
    assert_eq!(node.refused("PUT /stream/super-streams/{vhost}/{name}", made).await, "invalid");
    let nowhere = json!({"vhost": "none", "name": "s", "binding_keys": ["a"]});
    assert_eq!(
        node.refused("PUT /stream/super-streams/{vhost}/{name}", nowhere).await,
        "no_such_vhost"
    );
    let many = json!({"vhost": "/", "name": "many", "partitions": u64::MAX >> 1});
    assert_eq!(node.refused("PUT /stream/super-streams/{vhost}/{name}", many).await, "invalid");
    let first = json!({"vhost": "/", "name": "s-0"});
    let status = node.ok("GET /leveret/streams/{vhost}/{name}", first.clone()).await;
    let fields = json!([{"role": "writer", "node": "rabbit@box", "epoch": 1, "offset": -1,
        "committed_offset": -1, "committed_chunk_id": -1, "first_offset": -1, "readers": 0,
        "segments": 1}]);
    assert_eq!(status, fields);
    assert_eq!(
        node.ok("POST /leveret/streams/{vhost}/{name}/restart", first.clone()).await,
        "rabbit@box"
    );
    let status = node.ok("GET /leveret/streams/{vhost}/{name}", first.clone()).await;
    assert_eq!(status[0]["epoch"], 2);
    let columns = json!({"vhost": "/", "columns": ["name", "committed_offset", "segments"]});
    let queues = node.ok("GET /queues/{vhost}?typed=true", columns).await;
    assert_eq!(queues[0], json!({"name": "s-0", "committed_offset": -1, "segments": 1}));
    let found = node
        .ok("POST /leveret/streams/{vhost}/{name}/scrub", json!({"vhost": "/", "name": "s-1"}))
        .await;
    assert_eq!(found, json!({"chunks": 0, "bytes": 0, "damaged": 0, "damage": []}));
    node.ok("DELETE /leveret/super-streams/{vhost}/{name}", json!({"vhost": "/", "name": "s"}))
        .await;
    assert_eq!(node.refused("GET /leveret/streams/{vhost}/{name}", first).await, "not_found");
    let gone = json!({"vhost": "/", "name": "s"});
    assert_eq!(node.refused("DELETE /leveret/super-streams/{vhost}/{name}", gone).await, "invalid");
    assert_eq!(
        node.ok("GET /leveret/stream-coordinator", json!({})).await[0]["Raft State"],
        "leader"
    );
}

#[tokio::test]
async fn what_a_stream_is_asked_for_is_refused_where_it_cannot_be() {
    let node = start().await;
    node.declare("classic").await;
    node.ok(
        "PUT /stream/super-streams/{vhost}/{name}",
        json!({"vhost": "/", "name": "s", "binding_keys": ["eu"]}),
    )
    .await;
    let told = |endpoint: &'static str, request: Value| {
        let node = &node;
        async move {
            let answer = node.ask(endpoint, request).await;
            answer["reason"].as_str().unwrap().to_owned()
        }
    };
    let classic = json!({"vhost": "/", "name": "classic", "node": "rabbit@box"});
    let text = told("GET /leveret/streams/{vhost}/{name}", classic.clone()).await;
    assert_eq!(text, "Cannot get stream status of a classic queue");
    assert_eq!(
        told("POST /leveret/streams/{vhost}/{name}/restart", classic).await,
        "Cannot restart a classic queue"
    );
    let replica = |at: &str| json!({"vhost": "/", "name": "s-eu", "node": at});
    node.ok("POST /leveret/streams/{vhost}/{name}/replicas/{node}", replica("rabbit@box")).await;
    assert_eq!(
        told("POST /leveret/streams/{vhost}/{name}/replicas/{node}", replica("rabbit@other")).await,
        "node_not_running"
    );
    let text =
        told("DELETE /leveret/streams/{vhost}/{name}/replicas/{node}", replica("rabbit@box")).await;
    assert_eq!(text, "Cannot delete the last member of a stream");
    let named = |stream: &str| json!({"vhost": "/", "stream": stream, "reference": "r"});
    assert_eq!(
        told("DELETE /leveret/streams/{vhost}/{stream}/offsets/{reference}", named("none")).await,
        "The stream does not exist"
    );
    let text =
        told("DELETE /leveret/streams/{vhost}/{stream}/offsets/{reference}", named("s-eu")).await;
    assert_eq!(text, "There is no stored offset for this reference, no need to reset");
    for endpoint in [
        "POST /leveret/streams/{vhost}/{stream}/groups/{reference}",
        "GET /leveret/streams/{vhost}/{stream}/groups/{reference}",
    ] {
        assert_eq!(told(endpoint, named("s-eu")).await, "The group does not exist");
    }
    let none = json!({"vhost": "/", "name": "none"});
    assert_eq!(
        told("GET /leveret/streams/{vhost}/{name}/tracking", none).await,
        "the stream does not exist"
    );
}
