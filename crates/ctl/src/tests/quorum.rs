use super::*;

#[test]
fn a_message_is_shown_as_keys_and_values() {
    let answer = json!({"ok": [["exchange", ""], ["header.n", 1]]});
    let ran = told(&["peek", "q", "2", "--formatter", "table"], &answer);
    assert_eq!(
        ran.output,
        "Peeking at quorum queue q at position 2 on node rabbit@box ...\n\
         keys\tvalues\nexchange\t\nheader.n\t1\n"
    );
    assert_eq!(ran.asked.unwrap().0, "GET /leveret/queues/%2F/%71/messages/%32");
    let ran = told(&["peek", "q", "2", "--formatter", "json"], &answer);
    let object = json!({"result": "ok", "message": {"exchange": "", "header.n": 1}});
    assert_eq!(serde_json::from_str::<Value>(&ran.output).unwrap(), object);
    let none = "Target queue does not have a message at that position";
    let ran = told(&["peek", "q", "2", "-q"], &refusal("target_not_found", none));
    assert_eq!((ran.code, ran.error), (69, format!("Error:\n{none}")));
    let ran = told(&["peek", "q", "2", "--formatter", "json"], &refusal("target_not_found", none));
    assert!(
        ran.code == 69 && ran.error.contains(&format!("\"message\":\"{none}\"")),
        "{}",
        ran.error
    );
}

#[test]
fn members_are_asked_for_by_queue_and_node() {
    let none = "queue 'q' was not found in virtual host '/'";
    let ran = told(&["quorum_status", "q", "-q"], &refusal("not_found", none));
    assert_eq!((ran.code, ran.error.as_str()), (65, none));
    let ran = told(&["add_member", "q", "rabbit@x", "-q"], &refusal("unsupported", "node ..."));
    assert_eq!(ran.code, 64);
    let ran = told(&["rebalance", "all"], &json!({"ok": []}));
    assert_eq!(ran.output, "Re-balancing leaders of all queues...\n");
    let counted = json!({"ok": [{"Node name": "rabbit@box", "Number of streams": 2}]});
    let ran = told(&["rebalance", "stream", "-q", "--formatter", "table"], &counted);
    assert_eq!(ran.output, "Node name\tNumber of streams\nrabbit@box\t2\n");
    for (line, text) in [
        (&["peek", "q", "0"][..], "position value must be a positive integer"),
        (&["peek", "q"], "not enough arguments"),
        (&["grow", "rabbit@box", "odd"], "strategy 'odd' is not recognised."),
        (&["grow_to_count", "0", "all"], "node count '0' must be greater than 0."),
        (&["add_member", "q", "n", "--membership", "x"], "voter status 'x' is not recognised."),
        (
            &["rebalance", "classic"],
            "type classic is not supported. Try one of all, quorum, stream.",
        ),
    ] {
        let ran = alone(line);
        assert!(ran.code == 64 && ran.error.contains(text), "{}", ran.error);
    }
}

#[test]
fn checks_of_members_pass_and_say_so() {
    let running = json!({"ok": {"running": true}});
    let sync = "check_if_new_quorum_queue_replicas_have_finished_initial_sync";
    assert_eq!(
        told(&[sync, "-q"], &running).output,
        "Node rabbit@box reported no queues with promotable replicas\n"
    );
    assert_eq!(told(&[sync, "-s"], &running).output, "");
    let leaders = "check_for_quorum_queues_without_an_elected_leader";
    let ran = told(&[leaders, "^q", "--across-all-vhosts"], &json!({"ok": []}));
    assert_eq!(
        ran.output,
        "Checking leader replicas of quorum queues matching '^q' in all vhosts ...\n\
         Node rabbit@box reported all quorum queue as having responsive leader replicas\n"
    );
    assert_eq!(told(&[leaders, "^q", "-q"], &json!({"ok": []})).output, "");
    let critical = "check_if_node_is_quorum_critical";
    assert_eq!(
        told(&[critical, "-q"], &json!({"ok": {"is_alone": true}})).output,
        "Node rabbit@box seems to be the only one in a single node cluster, the check does not \
         apply\n"
    );
    let fine = json!({"ok": {"is_alone": false, "endangered": []}});
    assert_eq!(
        told(&[critical, "-q"], &fine).output,
        "Node rabbit@box reported no quorum queues with minimum quorum\n"
    );
    let await_more = "await_online_quorum_plus_one";
    assert_eq!(told(&[await_more, "-q"], &fine).code, 0);
    let few = json!({"ok": {"endangered": [{"readable_name": "rabbitmq_metadata"}]}});
    let ran = told(&[critical, "-q"], &few);
    let text = "rabbitmq_metadata would lose quorum if node rabbit@box is stopped";
    assert_eq!((ran.code, ran.error.as_str()), (69, text));
    assert_eq!(told(&[critical, "-s"], &few).error, "");
    let ran = told(&[await_more, "-q", "-t", "0"], &few);
    assert!(ran.code == 69 && ran.error.contains("time is up"), "{}", ran.error);
}
