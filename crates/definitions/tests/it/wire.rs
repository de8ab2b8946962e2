//! Asks and answers as bytes.

use std::sync::Arc;

use amqp091::{ShortString, Value};
use definitions::{
    ASK_BYTES_MAX, ASK_COMMANDS_MAX, AnswerBody, Ask, AskAnswer, Decision, Question, Refusal,
    RequestId,
};
use meta::{Command, Done, Name, State};
use stdx::Now;
use stdx::record::RecordError;
use testing::Random;

use crate::commands::{create_vhost, queue, random_command};

const REQUEST: RequestId = RequestId { node: 3, boot: 70_000, n: 9 };

fn ask(commands: Vec<Command>, basis: Option<u64>) -> Ask {
    let question = Arc::new(Question { commands, basis, user: Name::from("guest") });
    Ask { request: REQUEST, attempt: 4, term: 1 << 40, question }
}

fn decided(decision: Decision) -> AskAnswer {
    let body = AnswerBody::Decided { index: 77, decision };
    AskAnswer { request: REQUEST, attempt: 4, body }
}

fn check_answer(answer: &AskAnswer) {
    let bytes = answer.encode();
    assert_eq!(AskAnswer::decode(&bytes).as_ref(), Ok(answer));
    for cut in 0..bytes.len() {
        assert!(AskAnswer::decode(&bytes[..cut]).is_err(), "{cut} of {answer:?}");
    }
    assert_eq!(AskAnswer::decode(&[&bytes[..], &[0]].concat()), Err(RecordError::Invalid));
}

#[test]
fn asks_and_answers_survive_encoding() {
    let mut random = Random::new(1);
    let mut definitions = State::new();
    for n in 0..300 {
        let commands: Vec<_> = (0..n % 4).map(|_| random_command(&mut random)).collect();
        let results: Result<Vec<_>, _> = (commands.iter())
            .map(|command| Ok(definitions.apply(Now::default(), command)?.done))
            .collect();
        let ask = ask(commands, random.percent(50).then_some(n));
        let bytes = ask.encode().unwrap();
        assert_eq!(Ask::decode(&bytes), Ok(ask));
        for cut in 0..bytes.len() {
            assert!(Ask::decode(&bytes[..cut]).is_err());
        }
        assert_eq!(Ask::decode(&[&bytes[..], &[0]].concat()), Err(RecordError::Invalid));
        check_answer(&decided(match results {
            Ok(done) => Decision::Done(done),
            Err(error) => Decision::Refused(Refusal::Command(error)),
        }));
    }
    for decision in
        [Decision::WasDone, Decision::Refused(Refusal::Moved), Decision::Refused(Refusal::TooLarge)]
    {
        check_answer(&decided(decision));
    }
    check_answer(&AskAnswer { body: AnswerBody::Declined, ..decided(Decision::WasDone) });
}

#[test]
fn damaged_bytes_do_not_panic() {
    let mut random = Random::new(2);
    let commands = (0..3).map(|_| random_command(&mut random)).collect();
    let asked = ask(commands, Some(1)).encode().unwrap();
    let answered = decided(Decision::Done(vec![Done::Nothing, Done::NodeJoined(3)])).encode();
    for _ in 0..2000 {
        for bytes in [&asked, &answered] {
            let mut bytes = bytes.clone();
            let at = random.below(bytes.len());
            bytes[at] = u8::try_from(random.below(256)).unwrap();
            drop((Ask::decode(&bytes), AskAnswer::decode(&bytes)));
        }
    }
}

#[test]
fn an_ask_over_a_limit_is_not_sent() {
    let mut large = queue("q");
    large.arguments =
        [(ShortString::from_static("x"), Value::from("x".repeat(1 << 20)))].into_iter().collect();
    let n = ASK_BYTES_MAX >> 20;
    let commands = vec![Command::DeclareQueue(large); n];
    assert_eq!(ask(commands, None).encode(), Err(Refusal::TooLarge));
    let many = vec![create_vhost("v"); ASK_COMMANDS_MAX + 1];
    assert_eq!(ask(many, None).encode(), Err(Refusal::TooLarge));
    let mut bytes = ask(Vec::new(), None).encode().unwrap();
    let at = bytes.len() - 4;
    bytes.splice(at.., u32::MAX.to_le_bytes());
    assert_eq!(Ask::decode(&bytes), Err(RecordError::Invalid), "before anything is allocated");
}

#[test]
fn an_answer_with_too_long_effects_says_only_whether_the_ask_was_done() {
    let mut definitions = State::new();
    definitions.apply(Now::default(), &create_vhost("/")).unwrap();
    let mut large = queue("q");
    large.arguments =
        [(ShortString::from_static("x"), Value::from("x".repeat(1 << 20)))].into_iter().collect();
    let declare = Command::DeclareQueue(large);
    let mut effect = || definitions.apply(Now::default(), &declare).unwrap().done;
    let (created, exists) = (effect(), effect());
    let mut effects = vec![exists; ASK_BYTES_MAX >> 20];
    let decode = |effects: &Vec<Done>| {
        let bytes = decided(Decision::Done(effects.clone())).encode();
        AskAnswer::decode(&bytes).unwrap()
    };
    assert_eq!(decode(&effects), decided(Decision::Refused(Refusal::TooLarge)));
    effects.push(created);
    assert_eq!(decode(&effects), decided(Decision::WasDone));
}
