use super::*;

/// The log of each node here.
pub(super) fn log_lines() -> Ring<LogLine> {
    let ring = Ring::new(4, 1_000);
    let lines = [
        ("info", "before"),
        ("info", "a queue"),
        ("warning", "a Hare"),
        ("debug", "a hare"),
        ("error", "HARES"),
    ];
    for (unix_ms, (level, text)) in (10..).zip(lines) {
        ring.push(LogLine { unix_ms, level, category: "rabbitmq", text: text.into() }, 0);
    }
    ring
}

/// Numbers of an answer's lines or events.
fn numbers(answer: &Value, of: &str) -> Vec<u64> {
    answer[of].as_array().unwrap().iter().map(|item| item["n"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn the_last_lines_of_the_log_are_those_that_are_wanted() {
    let node = start().await;
    let answer = node.ok("GET /leveret/log", json!({"lines": 1})).await;
    let line = json!({
        "n": 5, "timestamp": 14, "level": "error", "category": "rabbitmq", "text": "HARES",
    });
    assert_eq!(answer, json!({"lines": [line], "first": 2, "next": 6, "level": "info"}));
    for (wanted, shown) in [
        (json!({}), vec![2, 3, 4, 5]),
        (json!({"lines": 2}), vec![4, 5]),
        (json!({"lines": 9_999, "after": 3}), vec![4, 5]),
        (json!({"after": 5}), vec![]),
        (json!({"before": 4, "lines": 1}), vec![3]),
        (json!({"after": 2, "before": 5}), vec![3, 4]),
        (json!({"level": "debug"}), vec![2, 3, 4, 5]),
        (json!({"level": "info"}), vec![2, 3, 5]),
        (json!({"level": "warning"}), vec![3, 5]),
        (json!({"level": "error"}), vec![5]),
        (json!({"text": "hArE"}), vec![3, 4, 5]),
        (json!({"text": "hare", "level": "warning", "lines": 1}), vec![5]),
        (json!({"text": ""}), vec![2, 3, 4, 5]),
    ] {
        let answer = node.ok("GET /leveret/log", wanted.clone()).await;
        assert_eq!(numbers(&answer, "lines"), shown, "{wanted}");
        assert_eq!(answer["next"], 6, "{wanted}");
    }
    for (wrong, reason) in [
        (json!({"level": "loud"}), "level must be one of error, warning, info, debug"),
        (json!({"lines": "x"}), "lines must be a number"),
        (json!({"after": -1}), "after must not be negative"),
    ] {
        let answer = node.post("GET /leveret/log", wrong).await;
        assert!(answer.starts_with("HTTP/1.0 400") && answer.contains(reason), "{answer}");
    }
}

#[tokio::test]
async fn the_last_events_are_those_that_are_wanted() {
    let node = start().await;
    let begun = node.ok("GET /leveret/events", json!({"count": 0})).await;
    let before = begun["next"].as_u64().unwrap() - 1;
    assert_eq!((numbers(&begun, "events"), &begun["first"]), (vec![], &json!(1)));
    node.declare_with("q", &[("x-overflow", "drop-head")]).await;
    let secret = json!({"name": "uri", "value": "amqp://ann:secret@host"});
    node.ok("PUT /global-parameters/{name}", secret).await;
    node.ok("DELETE /queues/{vhost}/{name}", json!({"vhost": "/", "name": "q"})).await;
    let answer = node.ok("GET /leveret/events", json!({"after": before})).await;
    let created = json!({
        "name": "q", "vhost": "/", "type": "classic", "durable": true, "auto_delete": false,
        "exclusive": false, "arguments": {"x-overflow": "drop-head"},
        "user_who_performed_action": "rmq-cli",
    });
    let created = json!({
        "n": before + 1, "timestamp": 0, "event": "queue.created", "headers": created,
    });
    assert_eq!(answer["events"][0], created);
    let set = json!({"name": "uri", "user_who_performed_action": "rmq-cli"});
    assert_eq!(answer["events"][1]["headers"], set, "the value may have a password");
    assert_eq!((&answer["first"], &answer["next"]), (&json!(1), &json!(before + 4)));
    for (wanted, shown) in [
        (json!({}), vec![1, 2, 3]),
        (json!({"count": 1}), vec![3]),
        (json!({"name": "queue.*"}), vec![1, 3]),
        (json!({"name": "#.set"}), vec![2]),
        (json!({"name": "queue"}), vec![]),
        (json!({"name": ""}), vec![1, 2, 3]),
        (json!({"text": "drop-HEAD"}), vec![1]),
        (json!({"text": "secret"}), vec![]),
    ] {
        let mut request = wanted.clone();
        request["after"] = json!(before);
        let answer = node.ok("GET /leveret/events", request).await;
        let shown: Vec<u64> = shown.into_iter().map(|at: u64| before + at).collect();
        assert_eq!(numbers(&answer, "events"), shown, "{wanted}");
    }
    for (wrong, reason) in [
        (json!({"name": "#.#.#"}), "uses 3 '#' wildcards"),
        (json!({"count": "x"}), "count must be a number"),
    ] {
        let answer = node.post("GET /leveret/events", wrong).await;
        assert!(answer.starts_with("HTTP/1.0 400") && answer.contains(reason), "{answer}");
    }
}
