//! Options of a compilation or a link.

use crate::refused::refuse;
use reef_cuda_abi::codes::INVALID_VALUE;
use reef_remote_calls::split_padded;

/// Options of a compilation with addresses of the program's: names and addresses of symbols.
const SYMBOLS: std::ops::RangeInclusive<u32> = 17..=19;
/// Places of logs; each is followed by the number of its size's option.
const LOGS: [u32; 2] = [3, 5];

/// Options of a compilation, as the program gave them.
pub(super) struct Options {
    /// Name and value of each.
    pairs: Vec<(u32, usize)>,
    /// Address of the program's list of values, for the sizes of logs.
    values: usize,
}

impl Options {
    pub(super) const NONE: Self = Self { pairs: Vec::new(), values: 0 };

    /// Reads both lists.
    ///
    /// # Safety
    ///
    /// Each list is null, or has `count` entries.
    pub(super) unsafe fn new(
        names: *const u32,
        values: *mut usize,
        count: u32,
    ) -> Result<Self, u32> {
        if count > 0 && (names.is_null() || values.is_null()) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: `# Safety` demands `count` entries, and no list is null unless `count` is zero.
        let pair = |at| unsafe { (*names.add(at), *values.add(at)) };
        Ok(Self { pairs: (0..count as usize).map(pair).collect(), values: values as usize })
    }

    /// Returns their number, and their pairs as a message has them.
    ///
    /// # Errors
    ///
    /// `NOT_SUPPORTED` for addresses of the program's.
    pub(super) fn body(&self) -> Result<(u32, Vec<u8>), u32> {
        if self.pairs.iter().any(|(name, _)| SYMBOLS.contains(name)) {
            return Err(refuse(c"a compilation with symbols of the program's"));
        }
        let mut body = Vec::new();
        for &(name, value) in &self.pairs {
            let value = if LOGS.contains(&name) { 0 } else { value as u32 };
            body.extend(u64::from(name).to_le_bytes());
            body.extend(u64::from(value).to_le_bytes());
        }
        Ok((self.pairs.len() as u32, body))
    }

    /// Writes the logs that a compilation has left.
    ///
    /// # Safety
    ///
    /// If there are options of logs: the list of values is still there, and so are buffers of
    /// logs, with as many bytes as the options of their sizes say.
    pub(super) unsafe fn take_logs(&self, mut bytes: &[u8]) {
        let pairs = &self.pairs;
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        while let Some((head, rest)) = bytes.split_at_checked(16) {
            let (option, len) = (number(&head[..8]) as u32, number(&head[8..]));
            let Some((log, rest)) = split_padded(rest, len) else { return };
            bytes = rest;
            let place = pairs.iter().find(|(name, _)| *name == option).map_or(0, |pair| pair.1);
            let is_size = |(name, _): &(u32, usize)| name.checked_sub(1) == Some(option);
            let Some(size) = pairs.iter().position(is_size) else { continue };
            let room = pairs[size].1 as u32 as usize;
            if place == 0 || room == 0 {
                continue;
            }
            let count = log.len().min(room - 1);
            // SAFETY: `# Safety` demands the buffer and its `room` bytes, of which `count` and one
            // for the zero are written, and the list of values, where the size's entry is.
            unsafe {
                std::ptr::copy_nonoverlapping(log.as_ptr(), place as *mut u8, count);
                (place as *mut u8).add(count).write(0);
                (self.values as *mut usize).add(size).write(count);
            }
        }
    }
}
