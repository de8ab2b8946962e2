//! What must hold for any input of the stream protocol's codec. Shared by the fuzz targets and by
//! an ordinary test of the crate, which needs no fuzzer.

use streamproto::tracking::{TrackingForm, TrackingRecords};
use streamproto::{Chunk, ToClient, ToServer, WireError, decode_frame};

const FRAME_MAX: u32 = 8192;

/// A stream of frames: each lies within the input, and what is decoded encodes to something no
/// longer that decodes to the same.
pub(crate) fn frame(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some((frame, used))) = decode_frame(rest, FRAME_MAX) {
        assert_eq!(used, frame.len() + 4);
        to_server(frame);
        to_client(frame);
        rest = rest.get(used..).expect("no more than the input");
    }
}

fn to_server(frame: &[u8]) {
    let command = match ToServer::decode(frame) {
        Ok(command) => command,
        Err(error) => return refused(error),
    };
    let mut out = Vec::new();
    command.encode_frame(&mut out);
    let (again, _) = decode_frame(&out, 0).expect("own frame").expect("whole frame");
    assert!(again.len() <= frame.len());
    assert_eq!(ToServer::decode(again), Ok(command));
}

fn to_client(frame: &[u8]) {
    let command = match ToClient::decode(frame) {
        Ok(command) => command,
        Err(error) => return refused(error),
    };
    let mut out = Vec::new();
    command.encode_frame(&mut out);
    let (again, _) = decode_frame(&out, 0).expect("own frame").expect("whole frame");
    assert!(again.len() <= frame.len());
    assert_eq!(ToClient::decode(again), Ok(command));
}

fn refused(error: WireError) {
    assert!(error.response_code().name().is_some());
    assert!(!error.to_string().is_empty());
}

/// A chunk as it is stored or delivered: it lies within the input, its entries end.
pub(crate) fn chunk(input: &[u8]) {
    if let Ok((chunk, rest)) = Chunk::decode_stored(input) {
        assert_eq!(chunk.header.stored_bytes() + rest.len() as u64, input.len() as u64);
        contents(chunk);
        let mut out = Vec::new();
        chunk.encode(&mut out);
        assert_eq!(Chunk::decode_stored(&out), Ok((chunk, &b""[..])));
    }
    if let Ok(chunk) = Chunk::decode_delivered(input) {
        let bytes = chunk.header.delivered_bytes() + chunk.trailer.len() as u64;
        assert_eq!(bytes, input.len() as u64);
        contents(chunk);
    }
}

fn contents(chunk: Chunk<'_>) {
    let n_entries = chunk.entries().filter(Result::is_ok).count();
    assert!(n_entries <= usize::from(chunk.header.n_entries));
    if chunk.verify_entries().is_ok() {
        assert_eq!(n_entries, usize::from(chunk.header.n_entries));
    }
    let made = Chunk::new(chunk.header, chunk.filter, chunk.data, chunk.trailer);
    assert_eq!(
        made.map(|made| made.header == chunk.header),
        Ok(chunk.verify_crc().is_ok() && {
            usize::from(chunk.header.filter_bytes) == chunk.filter.len()
                && usize::try_from(chunk.header.trailer_bytes) == Ok(chunk.trailer.len())
        })
    );
    let delta = TrackingForm::Delta { chunk_id: chunk.header.chunk_id };
    for form in [delta, TrackingForm::Snapshot] {
        assert!(TrackingRecords::new(chunk.trailer, form).count() <= chunk.trailer.len());
        let records: Result<Vec<_>, _> = TrackingRecords::new(chunk.trailer, form).collect();
        let mut out = Vec::new();
        if let Ok(records) = records {
            records.iter().for_each(|record| record.encode(form, &mut out));
            assert_eq!(out, chunk.trailer);
        }
    }
}
