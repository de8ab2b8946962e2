//! The streams of a run: made before it, deleted after it.

use streamproto::command::{
    Create, CreateSuperStream, Delete, DeleteSuperStream, Partitions, Property,
};
use streamproto::{List, ResponseCode, ToClient};

use super::client::{Refused, StreamClient};
use super::config::Streams;

/// Makes the streams that are missing.
pub(super) fn create(client: &mut StreamClient, streams: &Streams) -> anyhow::Result<()> {
    for name in &streams.names {
        let made = match streams.partitions {
            None => create_stream(client, name, &streams.arguments),
            Some(n) => create_super_stream(client, name, n, &streams.arguments),
        };
        match made.map_err(anyhow::Error::downcast::<Refused>) {
            Ok(()) => {}
            Err(Ok(refused)) if refused.code == ResponseCode::STREAM_ALREADY_EXISTS => {}
            // COMPAT: stream-perf-test goes on with a stream that exists with other properties, whatever it
            // was asked for. Test: `other_properties_of_a_stream_end_a_run_that_asks_for_some`.
            Err(Ok(refused)) if refused.code == ResponseCode::PRECONDITION_FAILED => {
                let text = format!("stream '{name}' exists with other properties");
                anyhow::ensure!(!streams.are_asked_for, text);
                crate::complain(&text);
            }
            Err(Ok(refused)) => return Err(refused.into()),
            Err(Err(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Makes a stream.
///
/// # Errors
/// [`Refused`], also if it exists.
pub(super) fn create_stream(
    client: &mut StreamClient,
    name: &str,
    arguments: &[(&'static str, String)],
) -> anyhow::Result<()> {
    let arguments = properties(arguments);
    let what = format!("stream '{name}'");
    client.call(&what, |correlation_id| Create {
        correlation_id,
        stream: name,
        arguments: List::of(&arguments),
    })?;
    Ok(())
}

fn create_super_stream(
    client: &mut StreamClient,
    name: &str,
    n: usize,
    arguments: &[(&'static str, String)],
) -> anyhow::Result<()> {
    let partitions: Vec<String> = (0..n).map(|at| format!("{name}-{at}")).collect();
    let keys: Vec<String> = (0..n).map(|at| at.to_string()).collect();
    let partitions: Vec<&str> = partitions.iter().map(String::as_str).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let arguments = properties(arguments);
    let what = format!("super stream '{name}'");
    client.call(&what, |correlation_id| CreateSuperStream {
        correlation_id,
        name,
        partitions: List::of(&partitions),
        binding_keys: List::of(&keys),
        arguments: List::of(&arguments),
    })?;
    Ok(())
}

fn properties<'a>(arguments: &'a [(&'static str, String)]) -> Vec<Property<'a>> {
    arguments.iter().map(|(key, value)| Property { key, value }).collect()
}

/// The streams a client of `name` uses: itself, or the partitions of a super stream.
pub(super) fn parts_of(
    client: &mut StreamClient,
    streams: &Streams,
    name: &str,
) -> anyhow::Result<Vec<String>> {
    if streams.partitions.is_none() {
        return Ok(vec![name.to_owned()]);
    }
    let what = format!("partitions of '{name}'");
    let frame =
        client.call(&what, |correlation_id| Partitions { correlation_id, super_stream: name })?;
    let ToClient::PartitionsResponse(answer) = ToClient::decode(&frame)? else {
        anyhow::bail!("{what}: something else is answered");
    };
    anyhow::ensure!(!answer.streams.is_empty(), "{what}: there are none");
    Ok(answer.streams.iter().map(str::to_owned).collect())
}

/// Deletes the streams.
pub(super) fn delete(client: &mut StreamClient, streams: &Streams) -> anyhow::Result<()> {
    for name in &streams.names {
        if streams.partitions.is_some() {
            let what = format!("delete super stream '{name}'");
            client.call(&what, |correlation_id| DeleteSuperStream { correlation_id, name })?;
        } else {
            delete_stream(client, name)?;
        }
    }
    Ok(())
}

/// Deletes a stream.
pub(super) fn delete_stream(client: &mut StreamClient, name: &str) -> anyhow::Result<()> {
    let what = format!("delete stream '{name}'");
    client.call(&what, |correlation_id| Delete { correlation_id, stream: name })?;
    Ok(())
}
