//! Another implementation reads what this one writes, and writes what this one reads.

use amqp10::Performative;
use fe2o3_amqp_types::performatives as theirs;
use proptest::prelude::*;
use serde_amqp::{from_slice, to_vec};

use crate::generated::any_parts;

/// The performative as the other implementation writes it after having read it.
fn through_the_other(performative: &Performative<'_>, body: &[u8]) -> Vec<u8> {
    macro_rules! through {
        ($type:ty) => {
            to_vec(&from_slice::<$type>(body).unwrap()).unwrap()
        };
    }
    match performative {
        Performative::Open(_) => through!(theirs::Open),
        Performative::Begin(_) => through!(theirs::Begin),
        Performative::Attach(_) => through!(theirs::Attach),
        Performative::Flow(_) => through!(theirs::Flow),
        Performative::Transfer(_) => through!(theirs::Transfer),
        Performative::Disposition(_) => through!(theirs::Disposition),
        Performative::Detach(_) => through!(theirs::Detach),
        Performative::End(_) => through!(theirs::End),
        Performative::Close(_) => through!(theirs::Close),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_implementations_understand_each_other(parts in any_parts()) {
        parts.with(|performative| {
            let mut body = Vec::new();
            performative.encode(&mut body);
            let again = through_the_other(performative, &body);
            assert_eq!(Performative::decode(&again), Ok((performative.clone(), &b""[..])));
            // Theirs writes some values in longer forms.
            assert!(body.len() <= again.len());
        });
    }
}
