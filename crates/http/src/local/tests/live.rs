use super::*;
use crate::server::router;
use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use axum::{Router, routing};
use futures_core::Stream as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;

/// The next frame of a stream.
async fn frame(stream: &mut BodyDataStream) -> String {
    let next = std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context));
    String::from_utf8(next.await.unwrap().unwrap().to_vec()).unwrap()
}

async fn watch(router: &Router, topics: &str) -> BodyDataStream {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = format!("/api/live?{topics}").parse().unwrap();
    request.headers_mut().insert("authorization", "Basic YWRhOng=".parse().unwrap());
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 1));
    let peer = Peer { address, is_encrypted: false, limits: Limits::default() };
    request.extensions_mut().insert(peer);
    let answer = TowerToHyperService::new(router.clone()).call(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.into_body().into_data_stream()
}

#[tokio::test]
async fn those_who_watch_the_same_share_the_asking_and_nobody_asks_for_nobody() {
    let node = start().await;
    node.ok("PUT /leveret/users/{user}/tags", json!({"user": "ada", "tags": ["management"]})).await;
    let (management, clock) = (Arc::clone(&node.management), Box::new(Now::default));
    let api = Api::new(management, Arc::default(), Settings::default(), None, clock);
    let n_asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&n_asked);
    let answer = move || {
        let n = counted.fetch_add(1, Ordering::Relaxed);
        async move { format!("{n}\n{n}") }
    };
    let answers = Arc::new(Router::new().route("/api/thing", routing::get(answer)));
    assert!(api.turns.live.router.set(Arc::downgrade(&answers)).is_ok());
    let router = router(Arc::clone(&api), "");
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(watch(&router, "topics=/thing").await);
    }
    for n in 0..2 {
        let told = format!("event: shown\nid: /thing\ndata: {n}\ndata: {n}\n\n");
        for stream in &mut streams {
            assert_eq!(frame(stream).await, told);
        }
    }
    assert!(n_asked.load(Ordering::Relaxed) < 5, "not once for each");
    let mut other = watch(&router, "topics=/nothing").await;
    assert!(frame(&mut other).await.starts_with("event: refused\nid: /nothing\ndata: {"));
    drop((streams, other));
    while !api.turns.live.is_still() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(Arc::strong_count(&answers), 1, "nobody will ask");
}
