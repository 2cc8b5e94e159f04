//! Parts of messages, with lengths that the other end says and may have made up.

use crate::messages::MAX_PARAMS_LEN;

/// Reads offset and size of each parameter of a kernel, and returns them with the bytes up to the
/// end of the last one.
///
/// `None`: they are more than a kernel may have.
pub fn read_layout(bytes: &[u8]) -> Option<(Vec<(u32, u32)>, usize)> {
    let mut words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let (mut layout, mut len) = (Vec::new(), 0);
    while let (Some(offset), Some(size)) = (words.next(), words.next()) {
        let end = usize::try_from(offset.checked_add(size)?).ok()?;
        if end > MAX_PARAMS_LEN {
            return None;
        }
        len = end.max(len);
        layout.push((offset, size));
    }
    Some((layout, len))
}

/// Takes bytes of a length that the other end has said, with zeros up to a multiple of eight, and
/// returns them and what follows. The last ones of a message may have no padding.
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
    fn parameters_end_within_those_of_a_kernel() {
        let of = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            read_layout(&bytes)
        };
        assert_eq!(of(&[]), Some((vec![], 0)));
        assert_eq!(of(&[8, 4, 0, 8]), Some((vec![(8, 4), (0, 8)], 12)));
        assert_eq!(of(&[32_760, 4]), Some((vec![(32_760, 4)], 32_764)));
        for (offset, size) in [(32_760, 5), (0, u32::MAX), (u32::MAX - 15, 256), (u32::MAX, 1)] {
            assert_eq!(of(&[0, 8, offset, size]), None, "{offset} {size}");
        }
    }

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
