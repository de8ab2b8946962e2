//! Streams read from their beginning, by the number of messages in a chunk.

use crate::plan::{Case, Fill, Plan, RowPlan, Work, lines, metrics};
use crate::result::{Chart, Metric};
use crate::scenarios::Settings;

const MESSAGES: u32 = 3_000_000;
const STREAM: &str = "bench-stream-chunks";
const BY: &str = "RabbitMQ, 3 x m7i.4xlarge, 2025";
const BEFORE: &str = "4.1.4";
const AFTER: &str = "4.2.0-beta.3";
const X: &str = "messages per chunk";

/// The protocols that streams are read with.
const OVER_STREAM: &str = "stream protocol";
const OVER_AMQP: &str = "AMQP 0-9-1";

/// Messages per chunk, and messages per second as published: over the stream protocol before and after,
/// over AMQP 0-9-1 before and after.
type Published = (u32, [f64; 4]);

/// Message sizes with the chunks of the source.
const SIZES: &[(u32, &[Published])] = &[
    (
        12,
        &[
            (1, [15_862.0, 134_036.0, 21_068.0, 198_859.0]),
            (2, [32_760.0, 144_724.0, 40_177.0, 213_174.0]),
            (4, [62_920.0, 489_715.0, 55_374.0, 188_406.0]),
            (8, [125_976.0, 766_087.0, 73_572.0, 163_212.0]),
            (16, [290_331.0, 1_242_235.0, 82_674.0, 172_850.0]),
            (32, [502_849.0, 1_686_340.0, 76_240.0, 172_721.0]),
            (64, [999_666.0, 2_413_514.0, 83_824.0, 227_773.0]),
            (128, [1_939_236.0, 2_999_999.0, 83_484.0, 225_275.0]),
            (256, [3_000_000.0, 3_000_000.0, 84_669.0, 176_201.0]),
            (384, [3_000_000.0, 3_000_000.0, 90_661.0, 195_784.0]),
        ],
    ),
    (
        48,
        &[
            (1, [15_894.0, 128_490.0, 21_036.0, 154_122.0]),
            (2, [31_862.0, 243_170.0, 28_246.0, 167_494.0]),
            (4, [59_760.0, 325_732.0, 36_654.0, 203_348.0]),
            (8, [120_782.0, 446_295.0, 55_398.0, 176_263.0]),
            (16, [262_077.0, 989_119.0, 66_588.0, 162_293.0]),
            (32, [466_417.0, 1_246_364.0, 68_065.0, 215_873.0]),
            (64, [998_003.0, 1_701_644.0, 66_579.0, 217_864.0]),
            (96, [1_436_093.0, 1_496_258.0, 66_408.0, 201_126.0]),
        ],
    ),
    (
        256,
        &[
            (1, [15_457.0, 54_777.0, 13_554.0, 123_874.0]),
            (2, [32_722.0, 237_360.0, 20_455.0, 128_413.0]),
            (4, [64_340.0, 206_355.0, 27_580.0, 156_168.0]),
            (8, [126_984.0, 264_947.0, 34_288.0, 159_616.0]),
            (16, [251_382.0, 253_015.0, 38_421.0, 107_975.0]),
            (32, [458_715.0, 480_769.0, 41_446.0, 118_059.0]),
        ],
    ),
    (
        512,
        &[
            (1, [16_217.0, 56_380.0, 13_520.0, 114_845.0]),
            (2, [32_579.0, 102_040.0, 20_824.0, 110_140.0]),
            (4, [63_018.0, 111_706.0, 27_479.0, 117_347.0]),
            (8, [121_158.0, 126_967.0, 34_850.0, 74_949.0]),
            (10, [148_345.0, 156_193.0, 34_392.0, 85_743.0]),
        ],
    ),
    (
        1024,
        &[
            (1, [16_269.0, 53_196.0, 13_287.0, 79_687.0]),
            (2, [30_826.0, 57_440.0, 20_685.0, 68_497.0]),
            (4, [59_967.0, 63_582.0, 27_543.0, 47_893.0]),
            (6, [90_377.0, 89_118.0, 32_262.0, 69_897.0]),
        ],
    ),
];

/// The plan.
pub(crate) fn stream_chunks(Settings { scale, .. }: Settings) -> Plan {
    let n = scale.count(MESSAGES);
    let of_size = |&(size, chunks): &(u32, &'static [Published])| {
        chunks.iter().map(move |published| case(size, published, n))
    };
    Plan {
        name: "stream-chunks",
        title: "Streams by the size of their chunks",
        about: "A stream is filled with chunks of exactly so many messages, then read from its beginning \
            by one consumer: over the stream protocol with 50 credits, over AMQP 0-9-1 with a prefetch \
            of 200. To see what read-ahead does, give one broker twice: a node with stream.read_ahead = \
            false and one without that. A target's stream=URI says where it speaks the stream protocol.",
        source: "RabbitMQ 4.2: read-ahead for streams (rabbitmq.com, 2025-09-26): 3,000,000 messages of \
            each size and chunk; a cluster of three and a client, all AWS m7i.4xlarge.",
        metrics: metrics! {
            Rate PerCpuSecond CpuPerMessage ByteRate FileReads FileReadBytes ChunksPerRead
            ChunksReadAhead SocketWrites
        },
        charts: SIZES.iter().flat_map(charts).collect(),
        cases: SIZES.iter().flat_map(of_size).collect(),
        ..Plan::default()
    }
}

fn name(size: u32, chunk: u32, protocol: &str) -> String {
    format!("{size} B, {chunk} per chunk, {protocol}")
}

/// A picture for each protocol.
fn charts(&(size, chunks): &(u32, &'static [Published])) -> [Chart; 2] {
    [OVER_STREAM, OVER_AMQP].map(|protocol| {
        let rows = chunks.iter().map(move |&(chunk, _)| name(size, chunk, protocol));
        let title = format!("{size} B, {protocol}: messages per second");
        lines(&title, Metric::Rate, X, None).x_log().rows(rows)
    })
}

fn case(size: u32, &(chunk, [before, after, amqp_before, amqp_after]): &Published, n: u64) -> Case {
    let row = |protocol, before, after| {
        RowPlan::new(name(size, chunk, protocol), Metric::Rate)
            .number("size", size)
            .number(X, chunk)
            .published(BY, before)
            .of_variant(BEFORE)
            .published(BY, after)
            .of_variant(AFTER)
    };
    let stream = format!(
        "stream --producers 0 --consumers 1 --offset first --initial-credits 50 --no-latency \
         --cmessages {n} --streams {STREAM}"
    );
    let amqp = format!(
        "--producers 0 --consumers 1 --predeclared --qos 200 --stream-consumer-offset first \
         --cmessages {n} --queue {STREAM}"
    );
    Case::default()
        .first(Work::Fill(Fill { stream: STREAM, n_messages: n, size, chunk }))
        .row(row(OVER_STREAM, before, after), Work::load(&stream))
        .row(row(OVER_AMQP, amqp_before, amqp_after), Work::load(&amqp))
        .queue(STREAM)
}
