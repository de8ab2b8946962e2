//! The properties of a message that the broker itself reads when it is published.

use amqp091::{Table, TableRef, ValueRef};
use bytes::Bytes;
use exchanges::sender_selected::{BCC, CC};
use session::{Error, ErrorKind};

/// The most routing keys that CC and BCC may name together.
const COPIES_MAX: usize = 8_192;
/// The length of one of them, as of any routing key.
const COPY_KEY_BYTES_MAX: usize = 255;

/// The findings of an inspection.
pub(super) struct Inspected<'a> {
    /// Properties to be stored instead of those received.
    pub(super) properties: Option<Bytes>,
    /// Routing keys named in the CC and BCC headers.
    pub(super) extra_keys: Vec<&'a [u8]>,
    /// The headers.
    pub(super) headers: Option<TableRef<'a>>,
}

/// Checks `user-id` and `expiration`, and takes CC and BCC out of the headers (BCC for good).
pub(super) fn inspect<'a>(
    properties: message::View<'a>,
    user: &str,
    may_impersonate: impl FnOnce() -> bool,
) -> Result<Inspected<'a>, Error> {
    if let Some(claimed) = properties.user_id()
        && claimed != user.as_bytes()
        && !may_impersonate()
    {
        let claimed = String::from_utf8_lossy(claimed);
        let text =
            format!("user_id property set to '{claimed}' but authenticated user was '{user}'");
        return Err(Error::new(ErrorKind::ForeignUserId, text));
    }
    if let Some(expiration) = properties.expiration() {
        check_expiration(expiration)?;
    }
    let headers = properties.headers();
    let mut extra_keys = Vec::new();
    let mut stored = None;
    if let Some(headers) = headers {
        collect_keys(headers, CC, &mut extra_keys)?;
        if collect_keys(headers, BCC, &mut extra_keys)? {
            stored = Some(without_bcc(properties, headers)?);
        }
    }
    Ok(Inspected { properties: stored, extra_keys, headers })
}

fn refuse(text: String) -> Error {
    Error::new(ErrorKind::PreconditionFailed, text)
}

/// An expiration is a whole number of milliseconds as text, with an optional plus sign, ten years at most.
fn check_expiration(text: &[u8]) -> Result<(), Error> {
    let shown = String::from_utf8_lossy(text);
    let unsigned = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    let n_digits = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = unsigned.split_at(n_digits);
    let why = if digits.is_empty() {
        "no_integer".to_owned()
    } else if !rest.is_empty() {
        format!("{{leftover_string,\"{}\"}}", String::from_utf8_lossy(rest))
    } else if text.starts_with(b"-") && digits.iter().any(|digit| *digit != b'0') {
        format!("{{value_negative,-{}}}", String::from_utf8_lossy(digits))
    } else if let Some(number) = beyond_ten_years(digits) {
        format!("{{value_too_large,{}}}", String::from_utf8_lossy(number))
    } else {
        return Ok(());
    };
    Err(refuse(format!("invalid expiration '{shown}': {why}")))
}

/// The number without zeros in front, if it is too large; it may have any number of digits.
fn beyond_ten_years(digits: &[u8]) -> Option<&[u8]> {
    let n_zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let number = digits.get(n_zeros..).unwrap_or_default();
    let value = std::str::from_utf8(number).ok()?.parse();
    let is_within = number.is_empty() || value.is_ok_and(|ms: i64| ms <= meta::MILLISECONDS_MAX);
    (!is_within).then_some(number)
}

/// Adds the keys of header `name`; true when the header is there.
fn collect_keys<'a>(
    headers: TableRef<'a>,
    name: &'static str,
    keys: &mut Vec<&'a [u8]>,
) -> Result<bool, Error> {
    let Some(value) = headers.get(name.as_bytes()) else { return Ok(false) };
    let bad = |what: &str, shown: &str| {
        refuse(format!("invalid message: {{{what}_in_header,\"{name}\",{shown}}}"))
    };
    let ValueRef::Array(values) = value else {
        return Err(bad("unacceptable_type", value_type(&value)));
    };
    for value in values {
        // COMPAT: what is no text in the list is passed over.
        let ValueRef::LongString(key) = value else { continue };
        if key.len() > COPY_KEY_BYTES_MAX {
            return Err(bad("key_too_long", &format!("{},{COPY_KEY_BYTES_MAX}", key.len())));
        }
        if keys.len() >= COPIES_MAX {
            return Err(bad("too_many_keys", &COPIES_MAX.to_string()));
        }
        keys.push(key);
    }
    Ok(true)
}

fn value_type(value: &ValueRef<'_>) -> &'static str {
    value.to_owned().map_or("unknown", |value| value.type_name())
}

fn without_bcc(properties: message::View<'_>, headers: TableRef<'_>) -> Result<Bytes, Error> {
    let mut table: Table =
        headers.to_owned().map_err(|_| refuse("invalid message: bad headers".to_owned()))?;
    table.remove(BCC.as_bytes());
    let bytes = table.to_bytes();
    Ok(Bytes::from(properties.with_headers(Some(TableRef::trusted(&bytes)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp091::{ShortString, Value};
    use message::Properties;

    fn inspected(properties: &Properties) -> Result<(Option<Bytes>, Vec<Vec<u8>>), Error> {
        let bytes = properties.to_bytes();
        let view = message::View::of(&bytes);
        let found = inspect(view, "guest", || false)?;
        Ok((found.properties, found.extra_keys.iter().map(|key| key.to_vec()).collect()))
    }

    fn with_header(name: &'static str, value: Value) -> Properties {
        let mut headers = Table::default();
        headers.insert(ShortString::from_static(name), value);
        headers.insert(ShortString::from_static("other"), Value::Bool(true));
        Properties { headers: Some(headers), ..Properties::default() }
    }

    fn keys(texts: &[&str]) -> Value {
        Value::Array(texts.iter().map(|t| Value::LongString(t.as_bytes().into())).collect())
    }

    /// `abc`, the empty text and ` 5` are refused, `+5` and `0` are fine.
    #[test]
    fn expirations_are_whole_milliseconds() {
        for (text, why) in [
            ("abc", "no_integer"),
            ("", "no_integer"),
            (" 5", "no_integer"),
            ("5x", "{leftover_string,\"x\"}"),
            ("-1", "{value_negative,-1}"),
            ("+0315360000001", "{value_too_large,315360000001}"),
            ("99999999999999999999", "{value_too_large,99999999999999999999}"),
        ] {
            let error = check_expiration(text.as_bytes()).unwrap_err();
            assert_eq!(error.text, format!("invalid expiration '{text}': {why}"));
        }
        for fine in ["+5", "0", "000", "60000", "-0", "315360000000", "+0315360000000"] {
            assert!(check_expiration(fine.as_bytes()).is_ok());
        }
    }

    #[test]
    fn the_user_id_must_be_the_login() {
        let claim = |name: &'static str| Properties {
            user_id: Some(ShortString::from_static(name)),
            ..Properties::default()
        };
        assert!(inspected(&claim("guest")).is_ok());
        let error = inspected(&claim("bob")).unwrap_err();
        assert_eq!(error.text, "user_id property set to 'bob' but authenticated user was 'guest'");
        assert!(inspected(&claim("")).is_err());
    }

    #[test]
    fn cc_and_bcc_add_keys_and_bcc_is_taken_out() {
        let (stored, extra) = inspected(&with_header("CC", keys(&["a", "b"]))).unwrap();
        assert_eq!((stored, extra), (None, vec![b"a".to_vec(), b"b".to_vec()]));
        let (stored, extra) = inspected(&with_header("BCC", keys(&["c"]))).unwrap();
        assert_eq!(extra, [b"c".to_vec()]);
        let stored = stored.expect("changed");
        let headers =
            amqp091::PropertiesRef::parse(&stored).unwrap().headers().expect("others stay");
        assert!(headers.get(b"BCC").is_none() && headers.get(b"other").is_some());
        let error = inspected(&with_header("CC", Value::LongString(b"a".as_slice().into())));
        assert_eq!(
            error.unwrap_err().text,
            "invalid message: {unacceptable_type_in_header,\"CC\",longstr}"
        );
    }

    #[test]
    fn copies_are_limited_in_number_and_length() {
        let most = vec!["a"; COPIES_MAX];
        assert_eq!(inspected(&with_header("CC", keys(&most))).unwrap().1.len(), COPIES_MAX);
        let refused =
            |name, texts: &[&str]| inspected(&with_header(name, keys(texts))).unwrap_err();
        let error = refused("BCC", &[&most[..], &["b"]].concat());
        let text = "invalid message: {too_many_keys_in_header,\"BCC\",8192}";
        assert_eq!((error.kind, &*error.text), (ErrorKind::PreconditionFailed, text));
        let longest = "a".repeat(COPY_KEY_BYTES_MAX);
        assert!(inspected(&with_header("CC", keys(&[&longest]))).is_ok());
        let error = refused("CC", &["b", &format!("{longest}a")]);
        assert_eq!(error.text, "invalid message: {key_too_long_in_header,\"CC\",256,255}");
    }
}
