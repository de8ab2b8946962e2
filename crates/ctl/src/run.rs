//! Runs a verb: prompts, banner, request, answer.

use crate::client::{Client, DOCUMENT, Question, Unanswered, is_timeout, timed_out, unreachable};
use crate::document;
use crate::failure::{Failure, code};
use crate::output::{self, Answer, Form, Format, Rows, Style};
use crate::render;
use crate::verb::{Action, Banner, Input, Invocation, Listing, Wording};
use api::ErrorCode;
use serde_json::{Map, Value};
use std::io::{BufRead, Write};

/// Longest line that is read as a password.
const PASSWORD_BYTES_MAX: u64 = 64 * 1024;
/// The option that has nothing done.
const DRY_RUN: &str = "dry-run";

/// The terminal a run reads from and writes to.
pub(crate) struct Terminal<'a> {
    pub(crate) input: &'a mut dyn BufRead,
    pub(crate) output: &'a mut dyn Write,
}

/// Carries the verb out and prints what it has to show.
pub(crate) fn execute(
    invocation: &mut Invocation,
    terminal: &mut Terminal<'_>,
) -> Result<(), Failure> {
    let route = match invocation.verb.action {
        Action::Do(route)
        | Action::Say(route, _)
        | Action::Ask(route, _)
        | Action::Tell(route, _)
        | Action::List(route, _) => Some(route),
        Action::Offline(_) | Action::Follow(_) => None,
    };
    // COMPAT: a node that cannot be reached is reported before any informational line.
    let client = route.map(|_| connected(invocation)).transpose()?;
    print(terminal, &banner(invocation));
    read_input(invocation, terminal)?;
    // A verb that declares `--dry-run` passes it to the node.
    let is_asked = invocation.verb.switches.iter().any(|switch| switch.name == DRY_RUN);
    if invocation.flag(DRY_RUN) && !is_asked {
        return Ok(());
    }
    let asked = || {
        let question = Question::new(route.unwrap_or_default(), invocation.request()?, invocation);
        let answer = client.map_or(Err(Unanswered::Garbled), |client| client.ask(&question));
        understood(invocation, or_empty(invocation, answer))
    };
    let answer = match invocation.verb.action {
        Action::Do(_) => asked().map(|_| Answer::Done)?,
        Action::Say(_, sentence) => Answer::Text(render::filled(sentence, invocation, &asked()?)),
        Action::Tell(..) if invocation.format == Format::Json => Answer::Object(asked()?),
        Action::Ask(_, render) | Action::Tell(_, render) => render(invocation, asked()?)?,
        Action::List(_, listing) => Answer::Rows(match invocation.verb.columns() {
            Some(_) => Rows::new(&invocation.columns, &asked()?, listing.form),
            None => Rows::of(listing.columns.shown, &asked()?, listing.form),
        }),
        Action::Offline(act) => act(invocation)?,
        Action::Follow(follow) => return follow(invocation, terminal.output),
    };
    print(terminal, &output::written(&answer, style(invocation)));
    Ok(())
}

/// An answer, or none for a virtual host that does not exist. COMPAT: RabbitMQ's tools list nothing of it
/// where they list piece by piece.
fn or_empty(
    invocation: &Invocation,
    answer: Result<Value, Unanswered>,
) -> Result<Value, Unanswered> {
    match (answer, invocation.verb.action) {
        (
            Err(Unanswered::Refused { error: ErrorCode::NoSuchVhost, .. }),
            Action::List(_, Listing { form, .. }),
        ) if form != Form::Whole => Ok(Value::Null),
        // COMPAT: nobody is deleted without a word.
        (Err(Unanswered::Refused { error: ErrorCode::NoSuchUser, .. }), _)
            if invocation.verb.wording == Wording::UserDeletion =>
        {
            Ok(Value::Null)
        }
        (answer, _) => answer,
    }
}

fn style(invocation: &Invocation) -> Style<'_> {
    let action = &invocation.verb.action;
    let by_default = if let Action::List(_, listing) = action { listing.headers } else { true };
    let asked_for = invocation.flag("table-headers");
    Style {
        format: invocation.format,
        headers: invocation.headers() && (by_default || asked_for),
        bold: output::shows_bold(),
        node: invocation.node(),
    }
}

/// The informational lines; empty when they are not wanted.
fn banner(invocation: &Invocation) -> String {
    if invocation.output_less() || invocation.format.is_for_machines() {
        return String::new();
    }
    let lines = match invocation.verb.banner {
        Banner::Made(make) => make(invocation),
        Banner::Lines(template) => render::filled(template, invocation, &Value::Null),
    };
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// Reads a document, or a secret that was not given as an argument.
fn read_input(invocation: &mut Invocation, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let (name, text) = match invocation.verb.input {
        Some(Input::Document) => {
            (DOCUMENT, document::read(invocation.param("file"), terminal.input)?)
        }
        Some(Input::Secret { param, code }) if !invocation.params.contains_key(param) => {
            (param, ask_for_secret(invocation, terminal, code)?)
        }
        Some(Input::Secret { .. }) | None => return Ok(()),
    };
    invocation.params.insert(name.to_owned(), text.into());
    Ok(())
}

fn ask_for_secret(
    invocation: &Invocation,
    terminal: &mut Terminal<'_>,
    code: u8,
) -> Result<String, Failure> {
    if !invocation.output_less() {
        let hashed = invocation.flag("pre-hashed-password");
        let text = if hashed { "Hashed and salted password: \n" } else { "Password: \n" };
        print(terminal, text);
    }
    let mut line = String::new();
    let mut input = std::io::Read::take(&mut *terminal.input, PASSWORD_BYTES_MAX);
    match input.read_line(&mut line) {
        Ok(1..) => Ok(line.trim().to_owned()),
        Ok(0) | Err(_) => {
            Err(Failure::error(code, "Password is not provided via argument or stdin"))
        }
    }
}

/// Sends the node one request.
pub(crate) fn ask(
    invocation: &Invocation,
    route: &'static str,
    fields: Map<String, Value>,
) -> Result<Value, Failure> {
    let client = connected(invocation)?;
    understood(invocation, client.ask(&Question::new(route, fields, invocation)))
}

/// Connects to the node.
pub(crate) fn connected(invocation: &Invocation) -> Result<Client, Failure> {
    Client::connect(&invocation.address, invocation.timeout)
        .map_err(|error| unreachable(invocation, &error))
}

/// Sends the node one request and shows the lines of its answer as they come, until no more are wanted.
pub(crate) fn follow(
    invocation: &Invocation,
    route: &'static str,
    see: &mut dyn FnMut(&str) -> bool,
) -> Result<(), Failure> {
    let client = connected(invocation)?;
    let question = Question::new(route, invocation.request()?, invocation);
    understood(invocation, client.follow(&question, see))
}

/// Turns the absence of an answer into what is printed for it.
pub(crate) fn understood<T>(
    invocation: &Invocation,
    answer: Result<T, Unanswered>,
) -> Result<T, Failure> {
    answer.map_err(|unanswered| match unanswered {
        Unanswered::Io(error) if is_timeout(&error) => timed_out(invocation),
        Unanswered::Io(error) => unreachable(invocation, &error),
        Unanswered::Garbled => {
            Failure::error(code::SOFTWARE, "the node's answer could not be understood")
        }
        Unanswered::Refused { error, text } => render::refused(invocation, error, &text),
    })
}

/// Standard output that is closed early, as by `head`, is no reason to complain.
fn print(terminal: &mut Terminal<'_>, text: &str) {
    drop(terminal.output.write_all(text.as_bytes()).and_then(|()| terminal.output.flush()));
}
