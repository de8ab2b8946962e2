use super::*;

#[test]
fn a_listing_of_streams_is_a_table_in_a_box_with_its_own_columns() {
    let rows = json!({"ok": [{"node": "rabbit@box", "name": "a -> b"}]});
    let ran = told(&["list_stream_connections", "-q"], &rows);
    let lines: Vec<&str> = ran.output.lines().collect();
    assert_eq!(lines[1], "\u{2502} node       \u{2502} conn_name \u{2502}");
    assert_eq!(lines[3], "\u{2502} rabbit@box \u{2502} a -> b    \u{2502}");
    let table = ["list_stream_connections", "-q", "--formatter", "table", "conn_name"];
    assert_eq!(told(&table, &rows).output, "conn_name\na -> b\n");
    let nothing = told(&["list_stream_consumers", "-q"], &json!({"ok": []}));
    assert_eq!(nothing.output, "");
    let columns = |line: &[&str]| {
        let (question, _) = told(line, &json!({"ok": []})).asked.unwrap();
        question.split("columns=").nth(1).unwrap().split('&').next().unwrap().split(',').count()
    };
    assert_eq!(columns(&["list_stream_publishers"]), 6);
    assert_eq!(columns(&["list_stream_publishers", "-V"]), 8);
    let status = json!({"ok": [{"type": "offset", "reference": "app", "value": 7}]});
    let ran = told(&["stream_status", "s", "--tracking", "--formatter", "table", "-q"], &status);
    assert_eq!(ran.output, "type\treference\tvalue\noffset\tapp\t7\n");
}

#[test]
fn a_super_stream_is_asked_for_with_the_arguments_of_its_partitions() {
    let line = [
        "add_super_stream",
        "s",
        "--routing-keys",
        "eu,, us,",
        "--max-length-bytes",
        "5gb",
        "--max-age",
        "P1DT1S",
    ];
    let ran = told(&line, &json!({"ok": null}));
    assert_eq!(ran.output, "Adding a super stream...\nSuper stream s has been created\n");
    let arguments = json!({"max-length-bytes": "5000000000", "max-age": "86401s"});
    let request = json!({"binding_keys": ["eu", "us"], "arguments": arguments});
    assert_eq!(ran.asked, Some(("PUT /stream/super-streams/%2F/%73".to_owned(), request)));
    let ran = told(&["add_super_stream", "s"], &refusal("invalid", "there is already one"));
    assert_eq!((ran.code, ran.error.as_str()), (70, "Error:\nthere is already one"));
    for (options, text) in [
        (["--partitions", "0"], "The partition number must be greater than 0"),
        (["--max-length-bytes", "x"], "Invalid value for --max-length-bytes, valid example"),
        (["--max-age", "5m"], "Invalid value for --max-age, the value must a ISO 8601"),
        (["--leader-locator", "x"], "Invalid value for --leader-locator, valid values are"),
        (["--initial-cluster-size", "0"], "Invalid value for --initial-cluster-size, the value"),
    ] {
        let ran = alone(&["add_super_stream", "s", options[0], options[1]]);
        assert!(ran.code == 64 && ran.error.contains(text), "{}", ran.error);
    }
}

#[test]
fn groups_and_offsets_are_named_by_stream_and_reference() {
    assert_eq!(alone(&["reset_offset", "--stream", "s"]).code, 64);
    let named = ["--stream", "s", "--reference", "r"];
    let line = |verb| [&[verb][..], &named].concat();
    let ran = told(&line("reset_offset"), &json!({"ok": null}));
    assert_eq!(ran.output, "Resetting stored offset ...\nDone\n");
    assert_eq!(ran.asked.unwrap().0, "DELETE /leveret/streams/%2F/%73/offsets/%72");
    let ran = told(&line("activate_stream_consumer"), &json!({"ok": null}));
    assert_eq!(ran.output, "Activating a consumer in the group ...\nOK\n");
    let both = alone(&["list_stream_tracking", "s", "--offset", "--writer"]);
    assert!(both.code == 64 && both.error.contains("Specify only one of"), "{}", both.error);
}

#[test]
fn a_scrub_that_finds_damage_fails_and_names_it() {
    let sound = json!({"ok": {"chunks": 2, "bytes": 200, "damaged": 0, "damage": []}});
    let ran = told(&["scrub_stream", "s", "-q"], &sound);
    assert_eq!(ran.output, "Stream s has 2 chunks of 200 bytes, and 0 damaged places\n");
    let place = json!({"file": "f", "at": 56, "offset": null, "what": "no chunk begins here"});
    let damaged = json!({"ok": {"chunks": 2, "bytes": 200, "damaged": 1, "damage": [place]}});
    let ran = told(&["scrub_stream", "s"], &damaged);
    let place = "\"f\" at 56, offset null: \"no chunk begins here\"";
    assert!(ran.code == 65 && ran.error.ends_with(place), "{}", ran.error);
}
