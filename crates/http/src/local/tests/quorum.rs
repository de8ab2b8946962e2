use super::*;

async fn with_queues() -> Node {
    let node = start().await;
    node.declare("classic").await;
    for (queue, kind) in [("q", "quorum"), ("s", "stream")] {
        node.declare_with(queue, &[("x-queue-type", kind)]).await;
    }
    node
}

fn of(queue: &str) -> Value {
    json!({"vhost": "/", "name": queue, "node": "rabbit@box", "position": "1"})
}

#[tokio::test]
async fn a_quorum_queue_has_one_member_that_leads_it() {
    let node = with_queues().await;
    let status = node.ok("GET /queues/quorum/{vhost}/{name}/status", of("q")).await;
    assert_eq!(status[0]["Raft State"], "leader");
    assert_eq!((&status[0]["Node Name"], &status[0]["Term"]), (&json!("rabbit@box"), &json!(1)));
    let columns = ["name", "type", "state", "leader", "members", "online"];
    let row = |queue: &str, kind: &str| {
        json!({"name": queue, "type": kind, "state": "running", "leader": "rabbit@box",
            "members": ["rabbit@box"], "online": ["rabbit@box"]})
    };
    let classic = json!({"name": "classic", "type": "classic", "state": "running"});
    assert_eq!(
        node.ok("GET /queues/{vhost}?typed=true", json!({"vhost": "/", "columns": columns})).await,
        json!([classic, row("q", "quorum"), row("s", "stream")])
    );
    for (wanted, counted) in [("all", [Some(1), Some(1)]), ("quorum", [Some(1), None])] {
        let rows = node.ok("POST /rebalance/queues", json!({"type": wanted})).await;
        let n = |column: &str| rows[0].get(column).and_then(Value::as_i64);
        assert_eq!([n("Number of quorum queues"), n("Number of streams")], counted);
    }
    assert_eq!(
        node.ok("POST /rebalance/queues", json!({"type": "all", "vhost_pattern": "x"})).await,
        json!([])
    );
}

#[tokio::test]
async fn members_are_neither_added_nor_taken_away() {
    let node = with_queues().await;
    node.ok("POST /queues/quorum/{vhost}/{name}/replicas/add", of("q")).await;
    let elsewhere = json!({"vhost": "/", "name": "q", "node": "rabbit@other"});
    assert_eq!(
        node.refused("POST /queues/quorum/{vhost}/{name}/replicas/add", elsewhere.clone()).await,
        "unsupported"
    );
    node.ok("DELETE /queues/quorum/{vhost}/{name}/replicas/delete", elsewhere.clone()).await;
    assert_eq!(
        node.ok(
            "POST /queues/quorum/replicas/on/{node}/grow",
            json!({"node": "rabbit@box", "strategy": "all"})
        )
        .await,
        json!([])
    );
    let count = json!({"node_count": "3", "strategy": "all", "queue_pattern": "["});
    assert_eq!(node.refused("POST /leveret/queues/growth", count).await, "invalid");
    let result = "error: the last node cannot be removed";
    let kept = json!([{"vhost": "/", "name": "q", "size": 1, "result": result}]);
    assert_eq!(
        node.ok("DELETE /queues/quorum/replicas/on/{node}/shrink", json!({"node": "rabbit@box"}))
            .await,
        kept
    );
}

#[tokio::test]
async fn what_cannot_be_done_to_members_is_refused() {
    let node = with_queues().await;
    let elsewhere = json!({"vhost": "/", "name": "q", "node": "rabbit@other"});
    for (endpoint, request, text) in [
        ("DELETE /queues/quorum/{vhost}/{name}/replicas/delete", of("q"), "last_node"),
        (
            "DELETE /queues/quorum/replicas/on/{node}/shrink",
            elsewhere.clone(),
            "{:node_not_running, :rabbit@other}",
        ),
        (
            "PUT /leveret/queues/{vhost}/{name}/leader/{node}",
            of("q"),
            "The target node is already the leader of this queue",
        ),
        ("PUT /leveret/queues/{vhost}/{name}/leader/{node}", elsewhere, "unknown_member"),
        (
            "PUT /leveret/queues/{vhost}/{name}/leader/{node}",
            of("s"),
            "Cannot transfer leadership of a non-quorum queue",
        ),
        (
            "GET /queues/quorum/{vhost}/{name}/status",
            of("classic"),
            "{:unsupported, :rabbit_classic_queue}",
        ),
        (
            "POST /queues/quorum/{vhost}/{name}/replicas/add",
            of("s"),
            "{:unsupported, :rabbit_stream_queue}",
        ),
        (
            "DELETE /queues/quorum/{vhost}/{name}/replicas/delete",
            of("none"),
            "queue 'none' was not found in virtual host '/'",
        ),
        (
            "GET /leveret/queues/{vhost}/{name}/messages/{position}",
            of("classic"),
            "Cannot peek into a classic queue",
        ),
        ("GET /leveret/queues/{vhost}/{name}/messages/{position}", of("s"), "not_quorum_queue"),
        (
            "GET /leveret/queues/{vhost}/{name}/messages/{position}",
            of("q"),
            "Target queue does not have a message at that position",
        ),
        (
            "GET /leveret/queues/{vhost}/{name}/messages/{position}",
            of("none"),
            "Target queue was not found in virtual host '/'",
        ),
        ("POST /leveret/queues/{vhost}/{name}/checkpoint", of("s"), "not_quorum_queue"),
    ] {
        let answer = node.ask(endpoint, request).await;
        assert_eq!(answer["reason"], text, "{endpoint}");
    }
}

#[tokio::test]
async fn messages_are_counted_by_priority_shown_and_kept_through_a_checkpoint() {
    let node = with_queues().await;
    let mut session = node.connect(1);
    let open = Control {
        channel: ChannelId(1),
        origin: MethodTag::default(),
        nowait: false,
        refusal: session::RefusalScope::Channel,
        op: Op::OpenChannel,
    };
    let mut requests = vec![Request::Control(Box::new(open))];
    session.submit(&session::ReadInput::NONE, &mut requests).await.unwrap();
    // A priority of 9, of which the broker is to look.
    let input = b"q\x08\x00\x09hello";
    let span = |start, len| session::Span { start, len };
    let publish = session::Publish {
        channel: ChannelId(1),
        head: session::HeadPlace::Content,
        exchange: span(0, 0),
        routing_key: span(0, 1),
        properties: span(1, 3),
        content: session::Content::Inline(span(4, 5)),
        form: message::BodyForm::Plain,
        mandatory: false,
        immediate: false,
        persistent: false,
        inspect: true,
    };
    session
        .submit(&session::ReadInput::of(input), &mut vec![Request::Publish(publish)])
        .await
        .unwrap();
    let columns = [
        "messages_by_priority",
        "messages_active_priorities",
        "messages_delayed",
        "next_delayed_at",
        "last_delayed_at",
        "messages_dlx",
    ];
    let rows =
        node.ok("GET /queues/{vhost}?typed=true", json!({"vhost": "/", "columns": columns})).await;
    let counted = json!({"messages_by_priority": {"9": 1}, "messages_active_priorities": 1,
        "messages_delayed": 0, "messages_dlx": 0});
    assert_eq!(rows, json!([[], counted, []]));
    let shown = json!([
        ["priority", 9],
        ["routing_keys", ["q"]],
        ["exchange", ""],
        ["payload (max 64 bytes)", "hello"],
        ["header.x-delivery-count", 0]
    ]);
    assert_eq!(
        node.ok("GET /leveret/queues/{vhost}/{name}/messages/{position}", of("q")).await,
        shown
    );
    let done = json!([{"vhost": "/", "name": "q", "result": "{ok}"}]);
    assert_eq!(
        node.ok("POST /leveret/queues/checkpoint", json!({"queue_pattern": "^q"})).await,
        done
    );
    assert_eq!(
        node.ok("POST /leveret/queues/checkpoint", json!({"errors_only": true})).await,
        json!([])
    );
    node.ok("POST /leveret/queues/{vhost}/{name}/checkpoint", of("q")).await;
    assert_eq!(
        node.ok("GET /leveret/queues/{vhost}/{name}/messages/{position}", of("q")).await,
        shown
    );
}
