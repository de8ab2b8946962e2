//! Super streams: the partition of a message, as RabbitMQ's clients choose it by the hash of a routing
//! key.

/// The seed of RabbitMQ's clients.
const SEED: u32 = 104_729;

/// The partition, of `n`, of a message with this routing key.
pub(super) fn partition(key: &[u8], n: usize) -> usize {
    let hash = usize::try_from(murmur3_32(key)).unwrap_or(usize::MAX);
    hash.checked_rem(n).unwrap_or(0)
}

/// MurmurHash3 of 32 bits.
fn murmur3_32(bytes: &[u8]) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut hash = SEED;
    for block in blocks {
        hash ^= mix(u32::from_le_bytes(*block));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    hash ^= mix(u32::from_le_bytes(last));
    hash ^= u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

const fn mix(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hashed_as_rabbitmqs_clients_do() {
        let partitions: Vec<usize> =
            (1..6).map(|n| partition(format!("hello{n}").as_bytes(), 3)).collect();
        assert_eq!(partitions, [1, 0, 1, 2, 0]);
    }
}
