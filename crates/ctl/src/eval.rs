//! `eval`: there is no Erlang, but some expressions are sent by tools everywhere. Each is a row here, and is
//! answered as RabbitMQ would print it; any other is refused.

use crate::client::{Question, STATE, Unanswered};
use crate::failure::{Failure, code};
use crate::output::{Answer, atom};
use crate::run;
use crate::verb::Invocation;
use api::ErrorCode;
use serde_json::{Map, Value};
use stdx::RABBITMQ_VERSION;

use Shape::{Call, Whole};

/// Answers with the arguments of the expression, which are texts.
type Evaluate = fn(&Invocation, &[String]) -> Result<String, Failure>;

/// The shape of expressions: without blanks and texts, an underscore in the place of each text.
enum Shape {
    /// The whole expression.
    Whole(&'static str),
    /// The beginning of a call; more arguments follow.
    Call(&'static str),
}

/// The expressions that are answered.
const EXPRESSIONS: &[(Shape, Evaluate)] = &[
    (Whole("rabbit_access_control:check_user_pass_login(_,_)"), check_password),
    (
        Whole("rabbit_auth_backend_internal:user_login_authentication(_,[{password,_}])"),
        check_password,
    ),
    (Whole("rabbit_auth_backend_internal:check_user_login(_,[{password,_}])"), check_password),
    (Call("application:set_env(rabbit,"), set_environment),
    (Whole("node()"), |invocation, _| Ok(atom(invocation.node()))),
    (Whole("nodes()"), |_, _| Ok("[]".to_owned())),
    (Whole("rabbit_nodes:all()"), |invocation, _| Ok(format!("[{}]", atom(invocation.node())))),
    (Whole("rabbit_nodes:all_running()"), |invocation, _| {
        Ok(format!("[{}]", atom(invocation.node())))
    }),
    (Whole("rabbit_nodes:list_running()"), |invocation, _| {
        Ok(format!("[{}]", atom(invocation.node())))
    }),
    (Whole("rabbit_nodes:list_members()"), |invocation, _| {
        Ok(format!("[{}]", atom(invocation.node())))
    }),
    (Whole("rabbit_nodes:cluster_name()"), cluster_name),
    (Whole("rabbit_misc:version()"), |_, _| Ok(format!("\"{RABBITMQ_VERSION}\""))),
    (Whole("rabbit:product_version()"), |_, _| Ok(format!("\"{RABBITMQ_VERSION}\""))),
    (Whole("rabbit:is_running()"), |invocation, _| {
        let state = run::ask(invocation, STATE, Map::new())?;
        Ok(state.get("running").and_then(Value::as_bool).unwrap_or_default().to_string())
    }),
    (Whole("ok"), |_, _| Ok("ok".to_owned())),
    (Whole("true"), |_, _| Ok("true".to_owned())),
    (Whole("1+1"), |_, _| Ok("2".to_owned())),
];

/// Longest expression that is looked at.
const EXPRESSION_BYTES_MAX: usize = 64 * 1024;

pub(crate) fn eval(invocation: &Invocation) -> Result<Answer, Failure> {
    let expression = invocation.param("expression");
    let refused = || {
        let text =
            "Command 'eval' is not available in this version of Leveret: it does not run on Erlang";
        Failure::error(code::UNAVAILABLE, text)
    };
    let (shape, texts) = taken_apart(expression).ok_or_else(refused)?;
    let fits = |expected: &Shape| match expected {
        Call(start) => shape.starts_with(start) && shape.ends_with(')'),
        Whole(whole) => shape == *whole,
    };
    let (_, evaluate) =
        EXPRESSIONS.iter().find(|(expected, _)| fits(expected)).ok_or_else(refused)?;
    evaluate(invocation, &texts).map(Answer::Text)
}

/// The expression with an underscore for each text, and these: `"a"`, `<<"a">>`, `list_to_binary("a")`.
fn taken_apart(expression: &str) -> Option<(String, Vec<String>)> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return None;
    }
    let (mut shape, mut texts) = (String::new(), Vec::new());
    let mut chars = expression.trim().trim_end_matches('.').chars();
    while let Some(c) = chars.next() {
        if c != '"' {
            shape.extend((!c.is_whitespace()).then_some(c));
            continue;
        }
        let mut text = String::new();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => text.push(chars.next()?),
                other => text.push(other),
            }
        }
        texts.push(text);
        shape.push('_');
    }
    let shape = shape.replace("<<_>>", "_").replace("<<_/utf8>>", "_");
    let shape = ["list_to_binary(_)", "rabbit_data_coercion:to_binary(_)"]
        .iter()
        .fold(shape, |shape, coerced| shape.replace(coerced, "_"));
    Some((shape, texts))
}

/// Checks a user's password. COMPAT: tools look for `refused` or `ok` at the beginning.
fn check_password(invocation: &Invocation, texts: &[String]) -> Result<String, Failure> {
    let [user, password] = texts else {
        return Err(Failure::error(code::USAGE, "two texts are expected"));
    };
    let fields = [("user", user), ("password", password)];
    let fields = fields.map(|(name, text)| (name.to_owned(), Value::from(text.as_str())));
    let route = "POST /leveret/users/{user}/authentication";
    let user = text(user);
    let question = Question::new(route, fields.into_iter().collect(), invocation);
    match run::connected(invocation)?.ask(&question) {
        Err(Unanswered::Refused { error: ErrorCode::Refused, .. }) => {
            Ok(format!("{{refused,{user},\"user '~ts' - invalid credentials\",[{user}]}}"))
        }
        answer => run::understood(invocation, answer)
            .map(|_| format!("{{ok,{{user,{user},[],[{{rabbit_auth_backend_internal,none}}]}}}}")),
    }
}

/// Accepts a setting without effect. COMPAT: test suites set what makes RabbitMQ faster to test.
fn set_environment(invocation: &Invocation, _: &[String]) -> Result<String, Failure> {
    run::ask(invocation, STATE, Map::new())?;
    Ok("ok".to_owned())
}

fn cluster_name(invocation: &Invocation, _: &[String]) -> Result<String, Failure> {
    let answer = run::ask(invocation, "GET /cluster-name", Map::new())?;
    Ok(text(answer.get("name").and_then(Value::as_str).unwrap_or_default()))
}

fn text(text: &str) -> String {
    format!("<<\"{}\">>", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_taken_apart() {
        let of = |expression| taken_apart(expression).unwrap();
        let texts = vec!["u\"x".to_owned(), "p w".to_owned()];
        for expression in [
            r#"f(list_to_binary("u\"x"), list_to_binary("p w"))."#,
            r#" f( <<"u\"x">>,<<"p w">> ) . "#,
            r#"f("u\"x", "p w")"#,
        ] {
            let (shape, found) = of(expression);
            assert_eq!((shape.trim_end_matches('.'), &found), ("f(_,_)", &texts), "{expression}");
        }
        assert_eq!(taken_apart("f(\"a"), None);
        assert_eq!(
            (atom("rabbit@box"), atom("rabbit@my-box")),
            ("rabbit@box".into(), "'rabbit@my-box'".into())
        );
    }
}
