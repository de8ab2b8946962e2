use crate::backlog::image::{Image, ImageError, LoadedPage, stored_bodies};
use crate::backlog::page::{Added, Page};
use crate::backlog::page_bitmap::PageBitmap;
use crate::backlog::segments::SegmentNumber;
use crate::backlog::{Backlog, ColdPage, Job, Lookup, PagePool};
use crate::blob::BlobId;
use bytes::Bytes;
use message::{Annotations, Body, BodyForm, MessageRef};
use proptest::prelude::*;
use std::num::NonZeroU64;

const STORED: BlobId = BlobId { file: 0x0102, index: 0x0304 };

fn message<'a>(key: &'a [u8], properties: &'a [u8], body: Body<'a>) -> MessageRef<'a> {
    MessageRef {
        exchange: b"ex",
        routing_key: key,
        properties,
        body,
        persistent: true,
        annotations: Default::default(),
        form: BodyForm::Plain,
    }
}

/// Positions 1000, 1001 and 1003: inline, kept apart, stored.
fn sample() -> Page {
    let (large, stored) = (Bytes::from_static(b"LARGE"), Bytes::from_static(b"STORED"));
    let mut page = Page { first: 1000, ..Page::default() };
    let bodies = [
        (b"k1", Body::Borrowed(b"abc".as_slice()), None),
        (b"k1", Body::Shared(&large), None),
        (b"k1", Body::Borrowed(b"gone"), None),
        (b"k2", Body::Shared(&stored), Some(STORED)),
    ];
    for (key, body, blob) in bodies {
        let message = message(key, &[0x10, 0, 2], body);
        page.push(&Added { message: &message, segment: SegmentNumber::NONE, blob });
    }
    page.release(1002).unwrap();
    page
}

fn image_of(page: &Page, first: u64) -> Vec<u8> {
    let mut image = Image::default();
    image.write(&PagePool::default(), first, page);
    image.parts().concat()
}

/// Positions 1000 and 1001 of one envelope, which stands in for properties in front of the bodies: one kept
/// apart, one stored.
const GOLDEN_APART: &[u8] = &[
    2, 0, 1, 0, 2, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 5, 0, 0, 0, // header
    0, 0, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, // 1000: the first of the bodies
    1, 0, 2, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, // 1001: the first of those stored
    2, 1, 0, 0, 4, 3, 0, 0, // file, index
    b'e', b'x', b'k', 0, 0, 0, 0, 7, 0, 0, 0xa0, 2, 1, 3, 0, 0, 0, 8, 0, 9, // inline
    b'p', b'p', b'p', b'h', b'i', // bodies
];

#[test]
fn an_image_with_properties_in_front_of_bodies_is_written_and_read() {
    let pool = PagePool::default();
    let mut loaded = LoadedPage::read_all(&pool, GOLDEN_APART).unwrap();
    let wanted = loaded.wanted_bodies();
    let shown: Vec<_> =
        wanted.iter().map(|body| (body.blob, body.len, body.properties_bytes)).collect();
    assert_eq!(shown, [(STORED, 4, 3)]);
    assert_eq!(image_of(&loaded.page, 1000), GOLDEN_APART);
    assert!(loaded.page.get(1001).is_none());
    loaded.put_body(wanted[0], Bytes::from_static(b"ppp."));
    for (at, body) in [(1000, &b"hi"[..]), (1001, b".")] {
        let message = loaded.page.get(at).unwrap();
        assert_eq!((message.properties, message.body.bytes()), (&b"ppp"[..], body));
        assert_eq!((message.exchange, message.routing_key), (&b"ex"[..], &b"k"[..]));
    }
    for cut in 0..GOLDEN_APART.len() {
        assert_eq!(try_everything(&GOLDEN_APART[..cut]), Err(ImageError::Damaged), "cut at {cut}");
    }
}

const GOLDEN: &[u8] = &[
    1, 0, 1, 0, 3, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 37, 0, 0, 0, 5, 0, 0, 0, // header
    0, 0, 0, 0, 17, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, // 1000: inline at 17
    1, 0, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, // 1001: the first of the bodies
    3, 0, 2, 0, 0, 0, 0, 0, 6, 0, 0, 0, 24, 0, 0, 0, // 1003: the first of those stored
    2, 1, 0, 0, 4, 3, 0, 0, // file, index
    b'e', b'x', b'k', b'1', 0, 0, 0, 0, 3, 0, 0, 0x80, 2, 2, 0x10, 0, 2, b'a', b'b',
    b'c', // inline
    b'e', b'x', b'k', b'2', 20, 0, 0, 0, 3, 0, 0, 0x80, 2, 2, 0x10, 0, 2, //
    b'L', b'A', b'R', b'G', b'E', // bodies
];

#[test]
fn an_image_is_written_as_it_was_always() {
    assert_eq!(image_of(&sample(), 1000), GOLDEN);
}

#[test]
fn an_image_reads_back_as_it_was_written() {
    let pool = PagePool::default();
    let mut loaded = LoadedPage::read(&pool, GOLDEN, &PageBitmap::of(0..4)).unwrap();
    let wanted = loaded.wanted_bodies();
    assert_eq!(
        wanted.iter().map(|wanted| (wanted.blob, wanted.len)).collect::<Vec<_>>(),
        [(STORED, 6)]
    );
    loaded.put_body(wanted[0], Bytes::from_static(b"STORED"));
    let read = |at| {
        loaded.page.get(at).map(|message| {
            assert_eq!((message.exchange, message.properties), (&b"ex"[..], &[0x10, 0, 2][..]));
            assert!(message.persistent);
            [message.routing_key, message.body.bytes()].concat()
        })
    };
    assert_eq!(read(1000).unwrap(), b"k1abc");
    assert_eq!(read(1001).unwrap(), b"k1LARGE");
    assert_eq!(read(1002), None);
    assert_eq!(read(1003).unwrap(), b"k2STORED");
    assert_eq!(stored_bodies(GOLDEN, &PageBitmap::of(0..4)), Ok(vec![STORED]));
    assert_eq!(stored_bodies(GOLDEN, &PageBitmap::of(0..3)), Ok(vec![]));
}

#[test]
fn forms_of_bodies_read_back_and_are_no_deadlines() {
    let plain = message(b"k", &[0, 0], Body::Borrowed(b"body"));
    let sections = MessageRef { form: BodyForm::Amqp10, ..plain };
    let deadline = Annotations { deadline_ms: NonZeroU64::new(7), ..Annotations::NONE };
    let expiring = MessageRef { annotations: deadline, ..sections };
    for (all, has_deadlines) in [(&[plain, sections, plain][..], false), (&[expiring], true)] {
        let mut page = Page { first: 7, ..Page::default() };
        for message in all {
            page.push(&Added { message, segment: SegmentNumber::NONE, blob: None });
        }
        let image = image_of(&page, 7);
        let loaded = LoadedPage::read(&PagePool::default(), &image, &PageBitmap::of(0..3)).unwrap();
        for (at, sent) in (7..).zip(all) {
            let found = loaded.page.get(at).unwrap();
            assert_eq!(found.stored_annotations(), sent.stored_annotations());
            assert_eq!(found.body.bytes(), b"body");
        }
        assert_eq!(page.bytes.has_deadlines(), has_deadlines);
        assert_eq!(loaded.page.bytes.has_deadlines(), has_deadlines);
    }
}

#[test]
fn only_wanted_messages_are_read() {
    let wanted = PageBitmap::of([1].into_iter());
    let loaded = LoadedPage::read(&PagePool::default(), GOLDEN, &wanted).unwrap();
    assert_eq!((loaded.page.first, loaded.page.entries.len()), (1001, 1));
    assert_eq!(loaded.wanted_bodies(), []);
}

#[test]
fn an_image_of_a_newer_version_is_refused_by_its_number() {
    let mut image = GOLDEN.to_vec();
    image[0] = 3;
    let read = LoadedPage::read(&PagePool::default(), &image, &PageBitmap::of(0..4));
    assert_eq!(read.unwrap_err(), ImageError::Version(3));
}

#[test]
fn every_cut_of_an_image_is_an_error() {
    for cut in 0..GOLDEN.len() {
        assert_eq!(try_everything(&GOLDEN[..cut]), Err(ImageError::Damaged), "cut at {cut}");
    }
}

#[test]
fn the_image_of_another_page_is_refused() {
    let pool = PagePool::default();
    let mut backlog = Backlog::default();
    let (mut image, allowance) = (Image::default(), 16 << 10);
    assert_eq!(backlog.jobs().next(&pool, 0, allowance, &mut image), None);
    for at in 0..400 {
        let body = [7; 100];
        let message = message(b"k", &[], Body::Borrowed(&body));
        backlog.push(&pool, at, &message, None, None);
    }
    while let Some(job) = backlog.jobs().next(&pool, 0, allowance, &mut image) {
        let Job::Write { page, .. } = job else { panic!("nothing is to be loaded yet") };
        backlog.jobs().written(page, STORED).unwrap();
    }
    let job = backlog.jobs().next(&pool, 200, allowance, &mut image);
    let Some(Job::Load(ColdPage { page, live: wanted, .. })) = job else {
        panic!("the head is to be loaded")
    };
    let other = LoadedPage::read(&pool, GOLDEN, &wanted).unwrap();
    assert_eq!(backlog.loaded(&pool, page, other), Err(ImageError::OtherPage));
    let (lost, dropped) = backlog.failed(&pool, page).unwrap();
    assert_eq!(lost.iter().map(|range| range.end - range.start).sum::<u64>(), dropped.n_messages);
}

/// Does with an image whatever is done with images.
fn try_everything(image: &[u8]) -> Result<(), ImageError> {
    let pool = PagePool::default();
    let wanted = PageBitmap::of(0..8);
    let bodies = stored_bodies(image, &wanted);
    let mut loaded = LoadedPage::read(&pool, image, &wanted)?;
    assert!(bodies.is_ok());
    for wanted in loaded.wanted_bodies() {
        loaded.put_body(wanted, Bytes::from(vec![0; (wanted.len as usize).min(100)]));
    }
    for (position, entry) in loaded.page.live() {
        let message = loaded.page.get(position);
        assert!(message.is_some() || entry.len > 100, "what was accepted is whole");
        let size = message.map(|message| message.size_bytes() as u64);
        assert!(size.is_none_or(|size| size == loaded.page.size_bytes(entry)));
    }
    assert!(loaded.page.cost_bytes() < 16 * 4096 + 2 * image.len() + 1_000);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn a_damaged_image_does_no_harm(
        golden in prop::sample::select(vec![GOLDEN, GOLDEN_APART]),
        changes in prop::collection::vec((0..GOLDEN_APART.len(), any::<u8>()), 1..4),
        tail in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut image = golden.to_vec();
        for (at, byte) in changes {
            image[at] = byte;
        }
        image.extend(tail);
        let _either = try_everything(&image);
    }

    #[test]
    fn any_bytes_do_no_harm(mut image in prop::collection::vec(any::<u8>(), 0..200), v in 1..3_u8) {
        if let Some(version) = image.first_mut() {
            *version = v;
        }
        let _either = try_everything(&image);
    }
}

#[test]
fn a_page_without_gaps_is_copied_as_it_is() {
    let pool = PagePool::default();
    let mut backlog = Backlog::default();
    backlog.push(&pool, 7, &message(b"k", &[], Body::Borrowed(b"body")), None, None);
    let Lookup::Here(found) = backlog.get(7) else { panic!("it is here") };
    assert_eq!(found.body.bytes(), b"body");
    let slot = &backlog.pages.slots()[0];
    let page = slot.page().unwrap();
    let image = image_of(page, 7);
    assert_eq!(image.len(), 24 + 16 + page.bytes.len());
    assert!(image.ends_with(page.bytes.as_slice()));
}
