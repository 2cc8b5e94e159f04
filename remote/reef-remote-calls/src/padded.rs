//! Bytes that are followed by zeros up to a multiple of eight.

/// Takes bytes of a length that the other end has said, with their padding, and returns them and
/// what follows. The last ones of a message may have no padding.
///
/// `None`: there are fewer.
pub fn split_padded(bytes: &[u8], len: u64) -> Option<(&[u8], &[u8])> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    let padding = taken.len().next_multiple_of(8) - taken.len();
    Some((taken, rest.get(padding..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_end_before_their_padding() {
        assert_eq!(split_padded(b"abc\0\0\0\0\0de", 3), Some((&b"abc"[..], &b"de"[..])));
        assert_eq!(split_padded(b"abcdefgh", 8), Some((&b"abcdefgh"[..], &b""[..])));
        assert_eq!(split_padded(b"abc", 3), Some((&b"abc"[..], &b""[..])));
        assert_eq!(split_padded(b"abc", 0), Some((&b""[..], &b"abc"[..])));
    }

    #[test]
    fn lengths_beyond_the_end_have_no_bytes() {
        for len in [4, 1 << 40, u64::MAX - 7, u64::MAX] {
            assert_eq!(split_padded(b"abc", len), None, "{len}");
        }
    }
}
