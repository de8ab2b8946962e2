//! The host that a request is for.

use axum::http::uri::Authority;
use axum::http::{Request, Version, header};

/// Whether a request names its host in one way: by one `Host` if it is of HTTP/1.1, by at most one otherwise,
/// which is the same as in an address that has a host itself.
///
/// COMPAT: other requests are answered with 400 and nothing else, and the connection is closed.
pub(crate) fn is_clear<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    let Some(host) = host else { return request.version() < Version::HTTP_11 };
    let Ok(host) = host.to_str() else { return false };
    let is_name = host.is_empty()
        || Authority::try_from(host).is_ok_and(|it| !host.contains('@') && !it.host().is_empty());
    let of_address = request.uri().authority().map(Authority::as_str);
    another.is_none() && is_name && of_address.is_none_or(|it| it.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: Version, uri: &str, hosts: &[&str]) -> Request<()> {
        let mut request = Request::builder().version(version).uri(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn a_request_has_one_host() {
        let is_clear = |version, uri, hosts: &[&str]| is_clear(&request(version, uri, hosts));
        for (hosts, uri, clear) in [
            (&["here"][..], "/", true),
            (&["here:15672"], "/", true),
            (&["[::1]:15672"], "/", true),
            (&[""], "/", true),
            (&["here"], "http://HERE/api", true),
            (&[], "/", false),
            (&["here", "here"], "/", false),
            (&["here", "there"], "/", false),
            (&["here"], "http://there/api", false),
            (&["a@here"], "/", false),
            (&["here, there"], "/", false),
            (&["here/there"], "/", false),
            (&[":80"], "/", false),
        ] {
            assert_eq!(is_clear(Version::HTTP_11, uri, hosts), clear, "{hosts:?} {uri}");
        }
        assert!(is_clear(Version::HTTP_10, "/", &[]) && is_clear(Version::HTTP_10, "/", &["a"]));
        assert!(!is_clear(Version::HTTP_10, "/", &["a", "a"]));
    }
}
