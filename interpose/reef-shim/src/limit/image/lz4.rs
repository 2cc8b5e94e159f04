//! LZ4 blocks, as fat binaries have them.

/// Unpacks a block to at most `most` bytes. `None`: it isn't a valid block.
pub(super) fn block(mut from: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(most.min(1 << 20));
    while let Some((token, rest)) = from.split_first() {
        from = rest;
        let literals = length(usize::from(token >> 4), &mut from)?;
        let (copied, rest) = from.split_at_checked(literals)?;
        from = rest;
        out.extend_from_slice(copied);
        if from.is_empty() {
            break; // the last sequence is literals alone
        }
        let (distance, rest) = from.split_first_chunk::<2>()?;
        from = rest;
        let distance = usize::from(u16::from_le_bytes(*distance));
        let matched = length(usize::from(token & 15), &mut from)?.checked_add(4)?;
        let begin = out.len().checked_sub(distance).filter(|_| distance > 0)?;
        if out.len().checked_add(matched)? > most {
            return None;
        }
        for at in begin..begin + matched {
            out.push(*out.get(at)?); // it may repeat what it has just written
        }
    }
    (out.len() <= most).then_some(out)
}

/// Reads a length of four bits, and the bytes that extend it.
fn length(begin: usize, from: &mut &[u8]) -> Option<usize> {
    let mut length = begin;
    let mut goes_on = begin == 15;
    while goes_on {
        let (more, rest) = from.split_first()?;
        *from = rest;
        length = length.checked_add(usize::from(*more))?;
        goes_on = *more == 255;
    }
    Some(length)
}
