//! Streams and super streams.

use super::quorum::STATUS as COORDINATOR;
use super::{choice, table};
use crate::failure::{Failure, Invalid, code};
use crate::fields;
use crate::options::{Switch, flag, number, text};
use crate::output::{Answer, Form, Rows};
use crate::run;
use crate::tail;
use crate::units::bytes_of;
use crate::verb::Banner::Lines;
use crate::verb::{Action, Check, Invocation, Section, VERB, Verb, Wording, verbs};
use serde_json::{Map, Value, json};

const STREAMS: Verb = Verb { section: Section::Streams, vhost: true, ..VERB };
const VERBOSE: Switch = flag("verbose", Some('V'));
const STREAM: Switch = text("stream", None);
const REFERENCE: Switch = text("reference", None);

const fn boxed(endpoint: &'static str, columns: &'static str) -> Action {
    table(endpoint, columns, Form::Pretty)
}

/// The columns of `list_stream_connections`.
const CONNECTION: &str = "\
    conn_name:name, pid, node, port, peer_port, host, peer_cert_issuer, peer_cert_subject, \
    peer_cert_serial_number, peer_cert_validity, peer_host, user, vhost, subscriptions, ssl, \
    ssl_cipher, ssl_hash, ssl_key_exchange, ssl_protocol, connection_state:state, \
    auth_mechanism, heartbeat:timeout, frame_max, client_properties, connected_at";

/// The columns of `list_stream_consumers`; the first two are shown when they are asked for.
const CONSUMER: &str = "\
    connection_pid, node, subscription_id, stream:queue.name, messages_consumed, offset, \
    offset_lag, credits, active, activity_status, properties";

/// The columns of `list_stream_publishers`; the first two are shown when they are asked for.
const PUBLISHER: &str = "\
    connection_pid, node, publisher_id, stream:queue.name, reference, messages_published, \
    messages_confirmed, messages_errored";

const GROUP: &str = "stream, reference, partition_index, consumers";
const GROUP_CONSUMER: &str = "subscription_id, connection_name, state";

const STATUS: &str = "\
    role, node, epoch, offset, committed_offset, committed_chunk_id, first_offset, readers, \
    segments";

/// The columns but for the first two.
const fn without_origin(known: &'static str) -> &'static str {
    known.split_at("connection_pid, node, ".len()).1
}

/// Asks for a stream and a reference.
const NAMES_REFERENCE: Option<Check> = Some(|invocation| {
    let both = invocation.text("stream").and_then(|_| invocation.text("reference"));
    both.map(|_| ()).ok_or(Invalid::TooFew)
});

pub(super) const VERBS: &[Verb] = verbs! {
    STREAMS "list_stream_connections [<column> ...]", "Lists stream connections":
        switches: &[VERBOSE], vhost: false, banner: Lines("Listing stream connections ..."),
        action: choice(
            "GET /stream/connections?typed=true",
            Form::Pretty,
            CONNECTION,
            "node, conn_name",
        );
    STREAMS "list_stream_consumers [--vhost <vhost>] [<column> ...]",
        "Lists all stream consumers for a vhost":
        switches: &[VERBOSE], banner: Lines("Listing stream consumers ..."),
        action: choice(
            "GET /stream/consumers/{vhost}?typed=true",
            Form::Pretty,
            CONSUMER,
            without_origin(CONSUMER),
        );
    STREAMS "list_stream_publishers [--vhost <vhost>] [<column> ...]",
        "Lists all stream publishers for a vhost":
        switches: &[VERBOSE], banner: Lines("Listing stream publishers ..."),
        action: choice(
            "GET /stream/publishers/{vhost}?typed=true",
            Form::Pretty,
            PUBLISHER,
            without_origin(PUBLISHER),
        );
    STREAMS "list_stream_consumer_groups [--vhost <vhost>] [<column> ...]",
        "Lists groups of stream single active consumers for a vhost":
        switches: &[VERBOSE], banner: Lines("Listing stream consumer groups ..."),
        action: choice("GET /leveret/stream-groups/{vhost}", Form::Pretty, GROUP, GROUP);
    STREAMS "list_stream_group_consumers --stream <stream> --reference <reference> [--vhost \
        <vhost>] [<column> ...]",
        "Lists the consumers of a group of stream single active consumers":
        switches: &[VERBOSE, STREAM, REFERENCE], check: NAMES_REFERENCE,
        banner: Lines("Listing group consumers ..."),
        action: choice(
            "GET /leveret/streams/{vhost}/{stream}/groups/{reference}",
            Form::Pretty,
            GROUP_CONSUMER,
            GROUP_CONSUMER,
        );
    STREAMS "activate_stream_consumer --stream <stream> --reference <reference> [--vhost <vhost>]",
        "Elects the active consumer of a group again":
        switches: &[STREAM, REFERENCE], check: NAMES_REFERENCE,
        banner: Lines("Activating a consumer in the group ..."),
        action: Action::Say("POST /leveret/streams/{vhost}/{stream}/groups/{reference}", "OK");
    STREAMS "reset_offset --stream <stream> --reference <reference> [--vhost <vhost>]",
        "Resets the stored offset for a consumer name on a stream":
        switches: &[STREAM, REFERENCE], check: NAMES_REFERENCE,
        banner: Lines("Resetting stored offset ..."),
        action: Action::Ask(
            "DELETE /leveret/streams/{vhost}/{stream}/offsets/{reference}",
            |invocation, _| {
                let quiet = invocation.output_less();
                Ok(if quiet { Answer::Done } else { Answer::Text("Done".to_owned()) })
            },
        );
    STREAMS "list_stream_tracking <stream> [--all | --offset | --writer] [--vhost <vhost>]",
        "Lists tracking information for a stream":
        params: &["name"],
        switches: &[flag("all", None), flag("offset", None), flag("writer", None)],
        check: Some(|invocation| {
            let given = ["all", "offset", "writer"].map(|name| usize::from(invocation.flag(name)));
            if given.iter().sum::<usize>() > 1 {
                let text = "Specify only one of --all, --offset, --writer.";
                return Err(Invalid::Other(text.to_owned()));
            }
            Ok(())
        }),
        banner: Lines("Listing tracking information for stream {name} ..."),
        wording: Wording::Tracking,
        action: Action::Ask("GET /leveret/streams/{vhost}/{name}/tracking", tracked);
    STREAMS "stream_status [--vhost <vhost>] [--tracking] <stream>",
        "Displays the status of a stream":
        params: &["name"], switches: &[flag("tracking", None)],
        banner: Lines("Status of stream {name} on node {node} ..."),
        wording: Wording::Object,
        action: Action::Ask("GET /leveret/streams/{vhost}/{name}", |invocation, answer| {
            let tracking = invocation.flag("tracking");
            let columns = if tracking { "type, reference, value" } else { STATUS };
            Ok(Answer::Rows(Rows::of(columns, &answer, Form::Pretty)))
        });
    STREAMS "coordinator_status", "Displays the status of the stream coordinator":
        vhost: false, banner: Lines("Status of stream coordinator ..."),
        action: boxed("GET /leveret/stream-coordinator", COORDINATOR);
    STREAMS "restart_stream [--vhost <vhost>] <stream> [--preferred-leader-node <node>]",
        "Restarts a stream; its publishers and consumers reconnect":
        params: &["name"], switches: &[text("preferred-leader-node", None)],
        banner: Lines("Restarting stream {name}..."),
        wording: Wording::Object,
        action: Action::Ask("POST /leveret/streams/{vhost}/{name}/restart", |_, node| {
            Ok(Answer::Text(node.as_str().unwrap_or_default().to_owned()))
        });
    STREAMS "accept_stream_loss [--vhost <vhost>] <stream>",
        "Opens a stream with missing or damaged data, and gives that data up":
        params: &["name"], banner: Lines("Accepting the data loss of stream {name} ..."),
        wording: Wording::Object,
        action: Action::Ask("POST /leveret/streams/{vhost}/{name}/accept-loss", loss_accepted);
    STREAMS "scrub_stream [--vhost <vhost>] <stream>",
        "Verifies all chunks of a stream against their checksums and index":
        params: &["name"], banner: Lines("Scrubbing stream {name} ..."),
        wording: Wording::Object,
        action: Action::Ask("POST /leveret/streams/{vhost}/{name}/scrub", scrubbed);
    STREAMS "stream tail <stream> [--offset <offset>] [--count <count>] [--follow] [--vhost <vhost>]",
        "Shows messages of a stream, one JSON object per line":
        params: &["command", "name"],
        switches: &[
            text("offset", Some('o')),
            number("count", Some('c')),
            flag("follow", Some('f')),
        ],
        check: Some(|invocation| match (invocation.param("command"), invocation.number("count")) {
            ("tail", None | Some(0..)) => Ok(()),
            ("tail", Some(_)) => Err(Invalid::Other("The count must not be negative".to_owned())),
            _ => Err(Invalid::Other("The command for a stream is `tail`".to_owned())),
        }),
        wording: Wording::Object, action: Action::Follow(tail::tail);
    STREAMS "add_replica [--vhost <vhost>] <stream> <node>",
        "Adds a stream replica on the given node":
        params: &["name", "node"], banner: Lines("Adding a replica for stream {name} on node {node}..."),
        wording: Wording::Object,
        action: Action::Do("POST /leveret/streams/{vhost}/{name}/replicas/{node}");
    STREAMS "delete_replica [--vhost <vhost>] <queue> <node>",
        "Removes a stream queue replica on the given node":
        params: &["name", "node"], banner: Lines("Removing a replica of queue {name} on node {node}..."),
        wording: Wording::Object,
        action: Action::Do("DELETE /leveret/streams/{vhost}/{name}/replicas/{node}");
    STREAMS "add_super_stream <name> [--vhost <vhost>] [--partitions <partitions>] \
        [--binding-keys <binding-keys>] [--max-length-bytes <size>] [--max-age <duration>] \
        [--stream-max-segment-size-bytes <size>] [--leader-locator <locator>] \
        [--initial-cluster-size <size>] [--stream-initial-offset <offset>]",
        "Adds a super stream":
        params: &["name"],
        switches: &[
            number("partitions", None),
            text("binding-keys", None),
            text("routing-keys", None),
            text("max-length-bytes", None),
            text("max-age", None),
            text("stream-max-segment-size-bytes", None),
            text("leader-locator", None),
            number("initial-cluster-size", None),
            number("stream-initial-offset", None),
        ],
        check: Some(|invocation| super_stream(invocation).map(|_| ())),
        wording: Wording::SuperStream,
        banner: Lines("Adding a super stream..."), action: Action::Offline(add_super_stream);
    STREAMS "delete_super_stream <name> [--vhost <vhost>]", "Deletes a super stream":
        params: &["name"], banner: Lines("Deleting a super stream..."),
        wording: Wording::SuperStream, action: Action::Say(
            "DELETE /leveret/super-streams/{vhost}/{name}",
            "Super stream {name} has been deleted",
        );
};

/// Offsets of consumers and numbers of publishers.
#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
fn tracked(invocation: &Invocation, tracked: Value) -> Result<Answer, Failure> {
    let row = |row: &Value| {
        let (kind, other, value) = match row.get("type")?.as_str()? {
            "offset" => ("offset", "writer", row.get("value")?),
            "sequence" => ("writer", "offset", row.pointer("/value/1")?),
            _ => return None,
        };
        let name = row.get("reference")?;
        (!invocation.flag(other)).then(|| vec![kind.into(), name.clone(), value.clone()])
    };
    let columns = vec!["type", "name", "tracking_value"];
    let rows = tracked.as_array().into_iter().flatten().filter_map(row).collect();
    Ok(Answer::Rows(Rows { columns, rows, form: Form::Pretty }))
}

fn loss_accepted(invocation: &Invocation, accepted: Value) -> Result<Answer, Failure> {
    let (stream, n) = (invocation.param("name"), fields::number(&accepted, "messages"));
    Ok(Answer::Wrapped(format!("Stream {stream} is open again, up to {n} messages are lost")))
}

/// Damage is a failure that names each place.
fn scrubbed(invocation: &Invocation, found: Value) -> Result<Answer, Failure> {
    let count = |field| fields::number(&found, field);
    let text = format!(
        "Stream {} has {} chunks of {} bytes, and {} damaged places",
        invocation.param("name"),
        count("chunks"),
        count("bytes"),
        count("damaged")
    );
    if count("damaged") == 0 {
        return Ok(Answer::Wrapped(text));
    }
    let damage = fields::items(&found, "damage");
    let place = |one: &Value| {
        let field = |name| one.get(name).map(Value::to_string).unwrap_or_default();
        format!(
            "\n{} at {}, offset {}: {}",
            field("file"),
            field("at"),
            field("offset"),
            field("what")
        )
    };
    Err(Failure::error(code::DATA, format!("{text}{}", damage.map(place).collect::<String>())))
}

fn add_super_stream(invocation: &Invocation) -> Result<Answer, Failure> {
    let Ok(Value::Object(request)) = super_stream(invocation) else { return Ok(Answer::Done) };
    run::ask(invocation, "PUT /stream/super-streams/{vhost}/{name}", request)?;
    let name = invocation.param("name");
    Ok(Answer::Text(format!("Super stream {name} has been created")))
}

/// The request for a super stream.
fn super_stream(invocation: &Invocation) -> Result<Value, Invalid> {
    let told = |text: &str| Err(Invalid::Other(text.to_owned()));
    let (binding, routing) = (invocation.text("binding-keys"), invocation.text("routing-keys"));
    let n = invocation.number("partitions");
    let keys = match (binding.or(routing), n) {
        _ if binding.is_some() && routing.is_some() => return told("Specify --binding-keys only."),
        (Some(_), Some(_)) => {
            return told("Specify --partitions or --binding-keys, not both.");
        }
        (keys, None | Some(1..)) => keys,
        (None, Some(_)) => return told("The partition number must be greater than 0"),
    };
    let (field, value) = match keys {
        Some(keys) => {
            let keys = keys.split(',').map(str::trim).filter(|key| !key.is_empty());
            ("binding_keys", keys.collect())
        }
        None => ("partitions", Value::from(n.unwrap_or(3))),
    };
    Ok(json!({
        "name": invocation.param("name"),
        "vhost": invocation.vhost(),
        "arguments": stream_arguments(invocation)?,
        field: value,
    }))
}

/// The arguments of a super stream's partitions, as the stream protocol names them.
fn stream_arguments(invocation: &Invocation) -> Result<Map<String, Value>, Invalid> {
    let bad =
        |option: &str, text: &str| Invalid::Other(format!("Invalid value for --{option}, {text}"));
    let mut arguments = Map::new();
    for option in ["max-length-bytes", "stream-max-segment-size-bytes"] {
        let Some(text) = invocation.text(option) else { continue };
        let bytes = text.parse().ok().or_else(|| bytes_of(text));
        let bytes = bytes.ok_or_else(|| bad(option, "valid example values: 100gb, 50mb"))?;
        arguments.insert(option.to_owned(), u64::to_string(&bytes).into());
    }
    if let Some(text) = invocation.text("max-age") {
        let seconds = stdx::duration_s(text).ok_or_else(|| {
            bad(
                "max-age",
                "the value must a ISO 8601 duration, e.g. e.g. PT10M30S for 10 minutes 30 seconds, \
                 P5DT8H for 5 days 8 hours.",
            )
        })?;
        arguments.insert("max-age".to_owned(), format!("{seconds}s").into());
    }
    match invocation.text("leader-locator") {
        Some(locator @ ("client-local" | "balanced" | "random" | "least-leaders")) => {
            arguments.insert("queue-leader-locator".to_owned(), locator.into());
        }
        Some(_) => return Err(bad("leader-locator", "valid values are client-local, balanced.")),
        None => {}
    }
    match invocation.number("initial-cluster-size") {
        Some(n @ 1..) => {
            drop(arguments.insert("initial-cluster-size".to_owned(), n.to_string().into()))
        }
        Some(_) => return Err(bad("initial-cluster-size", "the value must be positive.")),
        None => {}
    }
    if let Some(offset) = invocation.number("stream-initial-offset") {
        let offset = u64::try_from(offset);
        let offset =
            offset.map_err(|_| bad("stream-initial-offset", "the value must be positive."))?;
        arguments.insert("stream-initial-offset".to_owned(), offset.to_string().into());
    }
    Ok(arguments)
}
