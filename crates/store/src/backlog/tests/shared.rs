//! Bodies that several backlogs have.

use crate::backlog::*;
use bytes::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};

const BODY_BYTES: usize = 300 * 1024;
const N_MESSAGES: u64 = 6;
const BLOB: BlobId = BlobId { file: 3, index: 4 };

/// A body store with room for one body.
#[derive(Debug, Default)]
struct Home {
    properties: Option<SharedProperties>,
    n_references: AtomicUsize,
}

impl SharedBody for Home {
    fn name(&self, body: &[u8]) -> (Option<BlobId>, usize) {
        let is_first = self.n_references.fetch_add(1, Ordering::Relaxed) == 0;
        (Some(BLOB), if is_first { body.len() } else { 0 })
    }

    fn properties(&self) -> Option<&SharedProperties> {
        self.properties.as_ref()
    }
}

/// The same message over and over, so large that each has a page.
fn backlog_of(pool: &PagePool, body: &Bytes, home: &Arc<Home>) -> Backlog {
    let message = MessageRef {
        exchange: b"",
        routing_key: b"queue",
        properties: b"",
        body: Body::Shared(body),
        persistent: false,
        annotations: Default::default(),
        form: message::BodyForm::Plain,
    };
    let mut backlog = Backlog::default();
    for at in 0..N_MESSAGES {
        let home = Arc::clone(home);
        backlog.push_shared(pool, at, &message, None, SharedBodyName { home, blob: None });
    }
    backlog
}

/// Has a page written, and tells what became of its body: the names in the image, and how many bytes
/// the body store has more.
fn write_page(pool: &PagePool, backlog: &mut Backlog) -> (u64, Vec<BlobId>, usize) {
    let mut image = Image::default();
    let job = backlog.jobs().next(pool, 0, 0, &mut image);
    let Some(Job::Write { page, is_durable: false }) = job else { panic!("{job:?}") };
    assert!(image.len() < 1024, "the body is not in the image");
    let mut all = PageBitmap::none();
    all.insert(0);
    (page.first(), stored_bodies(&image.parts().concat(), &all).unwrap(), image.stored_bytes)
}

#[test]
fn a_body_that_several_backlogs_have_is_stored_once_when_the_first_has_it_written() {
    let (pool, home) = (PagePool::default(), Arc::new(Home::default()));
    let body = Bytes::from(vec![b'x'; BODY_BYTES]);
    let mut both = [(); 2].map(|()| backlog_of(&pool, &body, &home));
    for backlog in &both {
        let Lookup::Here(message) = backlog.get(1) else { panic!("it is in memory") };
        assert_eq!(message.body.bytes().as_ptr(), body.as_ptr(), "memory has it once");
    }
    assert_eq!(home.n_references.load(Ordering::Relaxed), 0, "nothing is written yet");
    for (n, backlog) in both.iter_mut().enumerate() {
        let (written, names, added_bytes) = write_page(&pool, backlog);
        assert_eq!((names, added_bytes), (vec![BLOB], if n == 0 { BODY_BYTES } else { 0 }));
        assert_eq!(home.n_references.load(Ordering::Relaxed), n + 1);
        // Whoever lets go of a message that was written lets go of its body's reference.
        for at in 0..N_MESSAGES {
            let released = backlog.release(&pool, at).unwrap();
            assert_eq!(released.body, (at == written).then_some(BLOB), "position {at}");
            assert_eq!(released.size_bytes, (b"queue".len() + BODY_BYTES) as u64);
        }
    }
    assert_eq!(home.n_references.load(Ordering::Relaxed), 2);
    drop(both);
    assert_eq!(Arc::strong_count(&home), 1, "released messages keep no home");
}

/// Properties of which a page would take few copies, in front of a body of two bytes.
#[test]
fn properties_that_several_backlogs_have_are_kept_once_with_the_body() {
    let pool = PagePool::default();
    let whole = Bytes::from(vec![b'p'; BODY_BYTES]);
    let properties = SharedProperties { whole: whole.clone(), brief: b"brief".to_vec() };
    let home = Arc::new(Home { properties: Some(properties), ..Home::default() });
    let message = MessageRef {
        exchange: b"",
        routing_key: b"queue",
        properties: &whole,
        body: Body::Borrowed(b"hi"),
        persistent: false,
        annotations: Default::default(),
        form: message::BodyForm::Plain,
    };
    let mut backlog = Backlog::default();
    for at in 0..2 {
        let home: Arc<dyn SharedBody> = home.clone();
        backlog.push_shared(&pool, at, &message, None, SharedBodyName { home, blob: None });
        let Lookup::Here(found) = backlog.get(at) else { panic!("it is in memory") };
        assert_eq!((found.properties.as_ptr(), found.body.bytes()), (whole.as_ptr(), &b"hi"[..]));
    }
    let size_bytes = message.size_bytes() as u64;
    assert_eq!(backlog.stored_bytes(), 2 * size_bytes);
    let mut image = Image::default();
    let job = backlog.jobs().next(&pool, 0, 0, &mut image);
    let Some(Job::Write { page, .. }) = job else { panic!("{job:?}") };
    let bytes = image.parts().concat();
    assert!(bytes.len() < 1024, "neither is in the image");
    backlog.jobs().written(page, BlobId { file: 1, index: 1 }).unwrap();
    let mut read = LoadedPage::read_all(&pool, &bytes).unwrap();
    let brief: Vec<_> = read.messages().map(|one| one.message.properties.to_vec()).collect();
    assert_eq!(brief, [b"brief"], "known before the body is read");
    let wanted = read.wanted_bodies();
    let [body] = &wanted[..] else { panic!("{wanted:?}") };
    assert_eq!((body.blob, body.len as usize), (BLOB, BODY_BYTES + 2));
    read.put_body(*body, [&whole[..], b"hi"].concat().into());
    let found = read.page.get(page.first()).unwrap();
    assert_eq!((found.properties, found.body.bytes()), (&whole[..], &b"hi"[..]));
    assert_eq!(found.size_bytes() as u64, size_bytes);
}
