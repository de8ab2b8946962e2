use amqp091::{ShortString, Table, TableRef, Value};
use message::Properties;
use proptest::prelude::*;

use super::*;

fn headers() -> Table {
    let mut table = Table::new();
    for (name, value) in [
        ("colour", Value::from("blue")),
        ("weight", Value::I32(2_600)),
        ("price", Value::F64(2.5)),
        ("urgent", Value::Bool(true)),
        ("quote", Value::from("it's")),
        ("nothing", Value::Void),
    ] {
        table.push(ShortString::from_static(name), value);
    }
    table
}

fn evaluated(selector: &Selector) -> bool {
    let headers = headers().to_bytes();
    let properties = Properties {
        message_id: Some(ShortString::from_static("ID:1")),
        timestamp: Some(2),
        priority: Some(4),
        delivery_mode: Some(2),
        ..Properties::default()
    };
    let properties = properties.to_bytes();
    let message = Message {
        keys: &[b"k"],
        headers: Some(TableRef::parse(&headers).unwrap()),
        properties: Some(message::View::of(&properties)),
        ..Message::new(&[], None)
    };
    selector.matches(&message, &mut Steps::default())
}

fn sql(text: &str) -> bool {
    evaluated(&Selector::of_sql(text.as_bytes()).unwrap())
}

fn term(text: &str) -> bool {
    evaluated(&Selector::of_term(text.as_bytes()).unwrap())
}

#[test]
fn conditions_over_headers() {
    for text in [
        "colour = 'blue'",
        "colour='blue' and weight > 2500",
        "colour = 'red' OR weight between 2600 and 2601",
        "NOT (colour = 'red') AND weight NOT BETWEEN 1 AND 2",
        "colour IN ('red', 'blue') and colour not in ('green')",
        "weight in (1, 2600) AND price in (2.5)",
        "colour LIKE 'bl%' AND colour NOT LIKE 'b_e' AND colour like '_l__'",
        "quote = 'it''s' AND quote LIKE 'it!''s' ESCAPE '!'",
        "missing IS NULL AND colour IS NOT NULL AND nothing is null",
        "urgent AND urgent = TRUE and urgent <> false",
        "weight + 2 * 3 = 2606 AND (weight + 2) * 2 = 5204 AND -weight < - 1 AND +price > .5",
        "price / 2 = 1.25 and 7 / 2 = 3.5 AND weight = 2.6e3 and weight = 0xA28",
        "price >= 2.5 AND price <= 2.5 and not price < 2.5 and weight <> 'text'",
        "JMSMessageID = 'ID:1' AND JMSTimestamp = 2000 AND JMSPriority > 3",
        "JMSDeliveryMode = 'PERSISTENT' and JMSType is null",
        "missing = 1 OR TRUE",
    ] {
        assert!(sql(text), "{text}");
    }
    for text in [
        "colour = 'red'",
        "colour <> 'blue'",
        "weight = '2600'",
        "weight > 'a'",
        "missing = 1",
        "missing <> 1",
        "not missing = 1",
        "missing in ('a')",
        "missing not in ('a')",
        "missing not like 'a'",
        "missing not between 1 and 2",
        "missing = 1 AND TRUE",
        "colour + 1 = 2",
        "not colour",
        "colour",
        "weight like '2600'",
        "1 / 0 < 1",
    ] {
        assert!(!sql(text), "{text}");
    }
}

#[test]
fn terms_of_the_jms_client() {
    for text in [
        "{'=',{'ident',<<\"colour\">>},<<\"blue\">>}.",
        "{'and',{'>',{'ident',<<\"weight\">>},2500},{'not',{'is_null',{'ident',<<\"price\">>}}}}.",
        "{'or', {'<', {ident,<<\"weight\">>}, -1.5e3}, {'not_null',{'ident',<<\"colour\">>}}}",
        "{'between',{'ident',<<\"weight\">>},{'range',1,2600}}.",
        "{'not_between',{'ident',<<\"weight\">>},{'range',1,2}}.",
        "{'in',{'ident',<<\"colour\">>},[<<\"red\">>,<<98,108,117,101>>]}.",
        "{'not_in',{'ident',<<\"weight\">>},[1,2]}.",
        "{'like',{'ident',<<\"colour\">>},<<\"b%\">>,no_escape}.",
        "{'not_like',{'ident',<<\"quote\">>},<<\"%!%%\">>,<<\"!\">>}.",
        "{'=',{'+',{'ident',<<\"weight\">>},{'-',600}},{'*',1000,{'/',4,2}}}.",
        "{'=',{'ident',<<\"quote\">>},<<\"it's\">>}.",
        "'true'.",
        "{'<>',{'ident',<<\"urgent\">>},false}.",
    ] {
        assert!(term(text), "{text}");
    }
    assert!(!term("{'=',{'ident',<<\"colour\">>},<<\"red\">>}."));
    assert!(!term("{'=',{'ident',<<\"missing\">>},42}."));
}

#[test]
fn what_cannot_be_read_is_refused() {
    let deep = |n: usize| format!("{}TRUE{}", "(".repeat(n), ")".repeat(n));
    for text in [
        "",
        "colour =",
        "= 1",
        "colour = 'blue",
        "a b",
        "a IN ()",
        "a IN (b)",
        "a LIKE b",
        "a NOT 1",
        "a IS 1",
        "a BETWEEN 1",
        "a LIKE 'x' ESCAPE 'yy'",
        "1x = 2",
        "a = #",
        "(a",
        "a)",
        "NOT",
        "a = 99999999999999999999",
        "TRUE AND",
        &deep(600),
        &"NOT ".repeat(600),
        &vec!["a"; 600].join(" OR "),
        &vec!["a"; 600].join(" + "),
    ] {
        assert!(Selector::of_sql(text.as_bytes()).is_err(), "{text}");
    }
    assert!(Selector::of_sql(deep(100).as_bytes()).is_ok());
    assert!(Selector::of_sql(&vec![b' '; TEXT_BYTES_MAX + 1]).is_err());
    assert!(Selector::of_sql(b"a = '\xff'").is_err());
    for text in [
        "",
        "{",
        "{}",
        "{'='}",
        "{'=',1}",
        "{'foo',1,2}",
        "{'ident',1}",
        "<<\"a",
        "<<300>>",
        "error",
        "{'in',1,2}",
        "{'like',<<\"a\">>,1,no_escape}",
        "1 2",
        "{'=',1,2,3,4}",
        "[1",
        "'a",
        &"{'not',".repeat(600),
        &"[".repeat(100_000),
    ] {
        assert!(Selector::of_term(text.as_bytes()).is_err(), "{text}");
    }
}

proptest! {
    /// Whatever comes in is read or refused.
    #[test]
    fn any_text_is_read_or_refused(text in "[a'(){}<>=, \\[\\].0-9ANDORT%\"-]{0,40}") {
        let _sql = Selector::of_sql(text.as_bytes()).map(|selector| evaluated(&selector));
        let _term = Selector::of_term(text.as_bytes()).map(|selector| evaluated(&selector));
    }

    /// Both forms of the same condition, and the condition itself.
    #[test]
    fn comparisons_come_out_as_numbers_do(
        which in 0_usize..6, n in -3_i64..3, m in -3_i64..3, negated in any::<bool>(),
    ) {
        let operator = ["=", "<>", "<", "<=", ">", ">="][which];
        let expected = [n == m, n != m, n < m, n <= m, n > m, n >= m][which] != negated;
        let (not, open, close) = if negated { ("NOT ", "{'not',", "}") } else { ("", "", "") };
        prop_assert_eq!(sql(&format!("{not}{n} {operator} {m}")), expected);
        prop_assert_eq!(sql(&format!("{not}({n}.0 {operator} {m})")), expected);
        prop_assert_eq!(term(&format!("{open}{{'{operator}',{n},{m}}}{close}.")), expected);
    }

    #[test]
    fn three_valued_logic(operators in prop::collection::vec((0_usize..3, any::<bool>()), 2..6)) {
        let names = ["TRUE", "FALSE", "missing"];
        let values = [Some(true), Some(false), None];
        let mut text = names[operators[0].0].to_owned();
        let mut expected = values[operators[0].0];
        for (which, is_and) in &operators[1..] {
            let (operator, value) = (if *is_and { "AND" } else { "OR" }, values[*which]);
            text = format!("({text}) {operator} {}", names[*which]);
            let settling = !is_and;
            expected = match (expected, value) {
                (Some(a), _) | (_, Some(a)) if a == settling => Some(settling),
                (Some(_), Some(_)) => Some(*is_and),
                _ => None,
            };
        }
        prop_assert_eq!(sql(&text), expected == Some(true));
        prop_assert_eq!(sql(&format!("NOT ({text})")), expected == Some(false));
    }
}

#[test]
fn properties_of_jms_are_found_in_sections() {
    let mut sections = Vec::new();
    let properties = amqp10::Properties {
        subject: Some("order"),
        creation_time_ms: Some(1_234),
        group: amqp10::Group { id: Some("g"), ..amqp10::Group::default() },
        ..amqp10::Properties::default()
    };
    amqp10::Section::Properties(properties).encode(&mut sections);
    let message = Message { sections: Some(&sections), ..Message::new(&[b"k"], None) };
    let bare = Properties::default().to_bytes();
    let message = Message { properties: Some(message::View::of(&bare)), ..message };
    let all = "JMSType = 'order' AND JMSTimestamp = 1234 AND JMSXGroupID = 'g' AND JMSPriority = 4 \
               AND JMSDeliveryMode = 'NON_PERSISTENT' AND JMSXUserID IS NULL";
    let selector = Selector::of_sql(all.as_bytes()).unwrap();
    assert!(selector.matches(&message, &mut Steps::default()));
}
