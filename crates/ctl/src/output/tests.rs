use super::*;
use serde_json::json;

fn style(format: Format) -> Style<'static> {
    Style { format, headers: true, bold: false, node: "rabbit@box" }
}

fn users() -> Answer {
    let sent = json!([
        {"user": "alice", "tags": ["administrator", "monitoring"]},
        {"user": "dave", "tags": []},
    ]);
    Answer::Rows(Rows::of("user, tags", &sent, Form::Whole))
}

fn queues(sent: &Value) -> Answer {
    Answer::Rows(Rows::of("name, messages, arguments, policy", sent, Form::Streamed))
}

fn one_queue() -> Answer {
    queues(&json!([{
        "name": "q \"é\"", "messages": 3, "policy": null,
        "arguments": [
            ["x-max-length", "signedint", 10],
            ["x-dead-letter-exchange", "longstr", ""],
            ["t", "table", [["k", "longstr", "v\\"]]],
            ["a", "array", [["longstr", "x"], ["bool", true]]],
        ],
    }]))
}

#[test]
fn tables() {
    assert_eq!(
        written(&users(), style(Format::Default)),
        "user\ttags\nalice\t[administrator, monitoring]\ndave\t[]\n"
    );
    let bare = Style { headers: false, ..style(Format::Table) };
    assert_eq!(written(&users(), bare), "alice\t[administrator, monitoring]\ndave\t[]\n");
    assert_eq!(
        written(&one_queue(), bare),
        "q \"é\"\t3\t[{\"x-max-length\",10},{\"x-dead-letter-exchange\",[]},\
         {\"t\",[{\"k\",\"v\\\\\"}]},{\"a\",[\"x\",true]}]\t\n"
    );
}

#[test]
fn csv_quotes_everything() {
    assert_eq!(
        written(&users(), style(Format::Csv)),
        "\"user\",\"tags\"\n\"alice\",\"[administrator, monitoring]\"\n\"dave\",\"[]\"\n"
    );
    assert!(written(&one_queue(), style(Format::Csv)).contains("\"q \"\"é\"\"\",\"3\","));
}

#[test]
fn json_keeps_types_and_the_order_of_columns() {
    assert_eq!(
        written(&users(), style(Format::Json)),
        "[\n{\"user\":\"alice\",\"tags\":[\"administrator\",\"monitoring\"]}\n\
         ,{\"user\":\"dave\",\"tags\":[]}\n]\n"
    );
    let text = written(&one_queue(), style(Format::Json));
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read[0]["arguments"][0], json!(["x-max-length", "signedint", 10]));
    assert_eq!(read[0]["policy"], json!(""));
    let arguments = json!([["v\"void\",null]", "void", null], ["a", "array", [["void", null]]]]);
    let voids = queues(&json!([{"name": "q", "messages": null, "arguments": arguments}]));
    let read: Value = serde_json::from_str(&written(&voids, style(Format::Json))).unwrap();
    let expected =
        json!([["v\"void\",null]", "void", "undefined"], ["a", "array", [["void", "undefined"]]]]);
    assert_eq!(read[0]["arguments"], expected);
}

#[test]
fn pretty_tables() {
    assert_eq!(
        written(&users(), style(Format::PrettyTable)),
        "┌───────┬─────────────────────────────┐\n\
         │ user  │ tags                        │\n\
         ├───────┼─────────────────────────────┤\n\
         │ alice │ [administrator, monitoring] │\n\
         ├───────┼─────────────────────────────┤\n\
         │ dave  │ []                          │\n\
         └───────┴─────────────────────────────┘\n"
    );
    assert_eq!(
        written(&Answer::Text("Ping succeeded".to_owned()), style(Format::PrettyTable)),
        "┌────────────────┐\n\
         │ Output         │\n\
         ├────────────────┤\n\
         │ Ping succeeded │\n\
         └────────────────┘\n"
    );
}

#[test]
fn empty_listings() {
    let streamed = queues(&json!([]));
    assert_eq!(written(&streamed, style(Format::Default)), "");
    assert_eq!(written(&streamed, style(Format::Json)), "[\n]\n");
    assert_eq!(written(&streamed, style(Format::Csv)), "");
    assert_eq!(written(&streamed, style(Format::PrettyTable)), "");
    let whole = Answer::Rows(Rows::of("user", &json!([]), Form::Whole));
    assert_eq!(written(&whole, style(Format::Default)), "\n");
    assert_eq!(written(&whole, style(Format::Json)), "[]\n");
}

#[test]
fn texts_and_results() {
    let text = Answer::Text("Success".to_owned());
    assert_eq!(written(&text, style(Format::Default)), "Success\n");
    assert_eq!(written(&text, style(Format::Json)), "{\"message\":\"Success\"}\n");
    assert_eq!(written(&Answer::Done, style(Format::Default)), "");
    assert_eq!(
        written(&Answer::Done, style(Format::Json)),
        "{\"node\":\"rabbit@box\",\"result\":\"ok\"}\n"
    );
    assert_eq!(
        written(&Answer::Wrapped("{}".to_owned()), style(Format::Json)),
        "{\"node\":\"rabbit@box\",\"result\":\"ok\",\"value\":\"{}\"}\n"
    );
}

#[test]
fn policy_definitions_and_maps() {
    let sent = json!([{
        "effective_policy_definition": {"max-length": 10, "overflow": "reject-publish"},
        "metadata": {"description": "d", "tags": ["a"]},
    }]);
    let columns = "effective_policy_definition, metadata";
    let rows = Answer::Rows(Rows::of(columns, &sent, Form::Streamed));
    assert_eq!(
        written(&rows, Style { headers: false, ..style(Format::Default) }),
        "{\"max-length\":10,\"overflow\":\"reject-publish\"}\t\
         {\"description\":\"d\",\"tags\":[\"a\"]}\n"
    );
}
