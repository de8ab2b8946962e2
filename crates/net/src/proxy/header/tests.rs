use super::*;
use proptest::prelude::*;

fn line(line: &str) -> Result<Parsed, Invalid> {
    parse(line.as_bytes())
}

fn client(source: &str, destination: &str) -> Forwarded {
    Forwarded::Client { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

/// A header of version 2.
fn binary(version_and_command: u8, family_and_transport: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).unwrap();
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend([version_and_command, family_and_transport]);
    bytes.extend(len.to_be_bytes());
    bytes.extend(rest);
    bytes
}

#[test]
fn lines_of_either_family_are_read() {
    let ipv4 = "PROXY TCP4 192.0.2.7 198.51.100.1 56324 5672\r\n";
    assert_eq!(
        line(&format!("{ipv4}AMQP")),
        Ok(Parsed::Header {
            forwarded: client("192.0.2.7:56324", "198.51.100.1:5672"),
            n_bytes: ipv4.len()
        })
    );
    let ipv6 = "PROXY TCP6 2001:db8::7 ::1 1 65535\r\n";
    let forwarded = client("[2001:db8::7]:1", "[::1]:65535");
    assert_eq!(line(ipv6), Ok(Parsed::Header { forwarded, n_bytes: ipv6.len() }));
    for unknown in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 what ever\r\n"] {
        let forwarded = Forwarded::Unknown;
        assert_eq!(line(unknown), Ok(Parsed::Header { forwarded, n_bytes: unknown.len() }));
    }
}

#[test]
fn the_longest_line_is_taken_and_a_longer_one_is_not() {
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_BYTES_MAX - 16));
    assert_eq!(longest.len(), V1_BYTES_MAX);
    assert!(matches!(line(&longest), Ok(Parsed::Header { n_bytes: V1_BYTES_MAX, .. })));
    let longer = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_BYTES_MAX - 15));
    assert_eq!(line(&longer), Err(Invalid::TooLong));
    assert_eq!(line(&longer[..V1_BYTES_MAX - 1]), Ok(Parsed::More));
}

#[test]
fn other_lines_are_refused() {
    for wrong in [
        "PROXY \r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
        "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
        "PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n",
        "PROXY TCP4 localhost 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n\r\n",
        "PROXY tcp4 1.2.3.4 1.2.3.4 1 2\r\n",
    ] {
        assert_eq!(line(wrong), Err(Invalid::Line), "{wrong:?}");
    }
    for wrong in ["AMQP\0\0\x09\x01", "proxy TCP4", "GET / HTTP/1.1\r\n", "PROXY\r\n", "\r\n\r\nA"]
    {
        assert_eq!(line(wrong), Err(Invalid::NotProxyProtocol), "{wrong:?}");
    }
}

#[test]
fn binary_headers_of_either_family_are_read_and_what_follows_the_addresses_is_counted() {
    let ipv4 = [192, 0, 2, 7, 198, 51, 100, 1, 0xdc, 0x04, 0x16, 0x28];
    let forwarded = client("192.0.2.7:56324", "198.51.100.1:5672");
    assert_eq!(parse(&binary(0x21, 0x11, &ipv4)), Ok(Parsed::Header { forwarded, n_bytes: 28 }));
    let with_more = [&ipv4[..], &[4; 5000]].concat();
    let whole = binary(0x21, 0x11, &with_more);
    let header = Parsed::Header { forwarded, n_bytes: 5028 };
    assert_eq!(parse(&whole), Ok(header));
    assert_eq!(parse(&whole[..28]), Ok(header));
    assert_eq!(parse(&whole[..27]), Ok(Parsed::More));

    let mut ipv6 = [0; 36];
    (ipv6[15], ipv6[31], ipv6[33], ipv6[35]) = (1, 2, 3, 4);
    let forwarded = client("[::1]:3", "[::2]:4");
    assert_eq!(parse(&binary(0x21, 0x21, &ipv6)), Ok(Parsed::Header { forwarded, n_bytes: 52 }));
}

#[test]
fn commands_and_families_without_addresses_are_told_apart() {
    let local = Parsed::Header { forwarded: Forwarded::Local, n_bytes: 16 };
    assert_eq!(parse(&binary(0x20, 0x00, &[])), Ok(local));
    let local = Parsed::Header { forwarded: Forwarded::Local, n_bytes: 28 };
    assert_eq!(parse(&binary(0x20, 0x11, &[0xff; 12])), Ok(local));
    let unknown = Parsed::Header { forwarded: Forwarded::Unknown, n_bytes: 19 };
    assert_eq!(parse(&binary(0x21, 0x00, &[1, 2, 3])), Ok(unknown));
    let unknown = Parsed::Header { forwarded: Forwarded::Unknown, n_bytes: 232 };
    assert_eq!(parse(&binary(0x21, 0x31, &[0; 216])), Ok(unknown));
}

#[test]
fn other_binary_headers_are_refused() {
    for (wrong, why) in [
        (binary(0x11, 0x11, &[0; 12]), Invalid::VersionOrCommand),
        (binary(0x22, 0x11, &[0; 12]), Invalid::VersionOrCommand),
        (binary(0x21, 0x12, &[0; 12]), Invalid::FamilyOrTransport),
        (binary(0x21, 0x41, &[0; 12]), Invalid::FamilyOrTransport),
        (binary(0x21, 0x11, &[0; 11]), Invalid::Length),
        (binary(0x21, 0x21, &[0; 35]), Invalid::Length),
        (binary(0x20, 0x00, &vec![0; V2_BYTES_MAX - 15]), Invalid::Length),
    ] {
        assert_eq!(parse(&wrong), Err(why), "{wrong:?}");
    }
    let longest = binary(0x20, 0x00, &vec![0; V2_BYTES_MAX - 16]);
    assert!(matches!(parse(&longest), Ok(Parsed::Header { n_bytes: V2_BYTES_MAX, .. })));
}

/// Bytes that go a long way: pieces of headers, and noise.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(b"PROXY ".to_vec()),
        Just(b"UNKNOWN".to_vec()),
        Just(b"TCP4 ".to_vec()),
        Just(b"TCP6 ".to_vec()),
        Just(b"10.0.0.1 ".to_vec()),
        Just(b"::1 ".to_vec()),
        Just(b"65535 ".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(SIGNATURE.to_vec()),
        Just(vec![0x21, 0x11, 0, 12]),
        Just(vec![0x21, 0x21, 0, 36]),
        Just(vec![0x20]),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    proptest::collection::vec(word, 0..12).prop_map(|words| words.concat())
}

fn addresses() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    prop_oneof![
        any::<([u8; 4], u16, [u8; 4], u16)>()
            .prop_map(|(a, at, b, to)| ((a, at).into(), (b, to).into())),
        any::<([u8; 16], u16, [u8; 16], u16)>()
            .prop_map(|(a, at, b, to)| ((a, at).into(), (b, to).into())),
    ]
}

fn as_line(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (source.ip(), destination.ip());
    format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port()).into_bytes()
}

fn as_binary(source: SocketAddr, destination: SocketAddr, more: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    for address in [source, destination] {
        match address.ip() {
            IpAddr::V4(ip) => rest.extend(ip.octets()),
            IpAddr::V6(ip) => rest.extend(ip.octets()),
        }
    }
    rest.extend(source.port().to_be_bytes());
    rest.extend(destination.port().to_be_bytes());
    rest.extend(more);
    binary(0x21, if source.is_ipv4() { 0x11 } else { 0x21 }, &rest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever comes, something is said, the same however it is cut, and never about too many bytes.
    #[test]
    fn hostile_bytes_are_answered_and_pieces_agree_with_the_whole(bytes in hostile()) {
        let whole = parse(&bytes);
        let mut decided = None;
        for n in 0..=bytes.len() {
            let part = parse(&bytes[..n]);
            if let Some(decided) = decided {
                prop_assert_eq!(part, decided, "{} bytes", n);
            } else if part != Ok(Parsed::More) {
                decided = Some(part);
            }
            if n >= V1_BYTES_MAX {
                prop_assert_ne!(part, Ok(Parsed::More));
            }
        }
        prop_assert_eq!(decided.unwrap_or(Ok(Parsed::More)), whole);
        if let Ok(Parsed::Header { n_bytes, .. }) = whole {
            prop_assert!(n_bytes <= V2_BYTES_MAX);
        }
    }

    #[test]
    fn what_a_proxy_writes_is_read(
        (source, destination) in addresses(),
        more in proptest::collection::vec(any::<u8>(), 0..300),
        after in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let forwarded = Forwarded::Client { source, destination };
        for header in [as_line(source, destination), as_binary(source, destination, &more)] {
            let bytes = [&header[..], &after].concat();
            prop_assert_eq!(parse(&bytes), Ok(Parsed::Header { forwarded, n_bytes: header.len() }));
        }
    }
}
