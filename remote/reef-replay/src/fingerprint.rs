//! Hash of an operation without its words and its payload.
//!
//! Equal sequences have equal hashes. Two sequences with one hash cost bytes and nothing else:
//! before an operation is replayed, its shape is compared byte by byte.

use crate::op::Op;

/// Hash of no operation.
pub(crate) const NONE: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 32)
}

/// Returns the hash of a sequence after one more operation.
pub(crate) fn extend(hash: u64, op: &Op<'_>) -> u64 {
    let lens = (op.words.len() as u64) << 32 ^ op.payload.len() as u64;
    let mut hash = mix(mix(hash, u64::from(op.kind) << 32 | op.shape.len() as u64), lens);
    let (words, rest) = op.shape.as_chunks::<8>();
    for bytes in words {
        hash = mix(hash, u64::from_le_bytes(*bytes));
    }
    mix(hash, word(rest))
}

/// Reads up to eight bytes as a number, with zeros after them.
pub(crate) fn word(chunk: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..chunk.len()].copy_from_slice(chunk);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_payload_do_not_change_the_hash_and_all_else_does() {
        let op = Op { kind: 1, shape: b"0123456789", words: b"abcdefgh", payload: b"xy" };
        let hash = extend(NONE, &op);
        assert_eq!(hash, extend(NONE, &Op { words: b"hgfedcba", payload: b"yx", ..op }));
        for other in [
            Op { kind: 2, ..op },
            Op { shape: b"012345678", ..op },
            Op { shape: b"012345678\0", ..op },
            Op { shape: b"1123456789", ..op },
            Op { words: b"abcdefg", ..op },
            Op { payload: b"xyz", ..op },
        ] {
            assert_ne!(hash, extend(NONE, &other), "{other:?}");
        }
        assert_ne!(hash, extend(hash, &op));
    }
}
