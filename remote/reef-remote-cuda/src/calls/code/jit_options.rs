//! Options of a compilation or a link.

use crate::codes::INVALID_VALUE;
use crate::refused::refuse;

/// Options of a compilation with addresses of the program's: names and addresses of symbols.
const SYMBOLS: std::ops::RangeInclusive<u32> = 17..=19;
/// Places of logs; each is followed by the number of its size's option.
const LOGS: [u32; 2] = [3, 5];

/// Options of a compilation, as the program gave them.
pub(super) struct Options {
    names: *const u32,
    values: *mut usize,
    count: usize,
}

impl Options {
    pub(super) const NONE: Self =
        Self { names: std::ptr::null(), values: std::ptr::null_mut(), count: 0 };

    pub(super) unsafe fn new(
        names: *const u32,
        values: *mut usize,
        count: u32,
    ) -> Result<Self, u32> {
        if count > 0 && (names.is_null() || values.is_null()) {
            return Err(INVALID_VALUE);
        }
        Ok(Self { names, values, count: count as usize })
    }

    /// Name and value of each.
    unsafe fn pairs(&self) -> Vec<(u32, usize)> {
        // SAFETY: `new` refuses null lists unless `count` is zero, and the driver demands `count`
        // names and values of the program.
        let pair = |at| unsafe { (*self.names.add(at), *self.values.add(at)) };
        (0..self.count).map(pair).collect()
    }

    /// Returns their number, and their pairs as a message has them.
    ///
    /// # Errors
    ///
    /// `NOT_SUPPORTED` for addresses of the program's.
    pub(super) unsafe fn body(&self) -> Result<(u32, Vec<u8>), u32> {
        // SAFETY: the lists are those of `new`: `count` names and values of the program, or none.
        let pairs = unsafe { self.pairs() };
        if pairs.iter().any(|(name, _)| SYMBOLS.contains(name)) {
            return Err(refuse(c"a compilation with symbols of the program's"));
        }
        let mut body = Vec::new();
        for &(name, value) in &pairs {
            let value = if LOGS.contains(&name) { 0 } else { value as u32 };
            body.extend(u64::from(name).to_le_bytes());
            body.extend(u64::from(value).to_le_bytes());
        }
        Ok((pairs.len() as u32, body))
    }

    /// Writes the logs that a compilation has left.
    pub(super) unsafe fn take_logs(&self, mut bytes: &[u8]) {
        // SAFETY: the lists are those of `new`: `count` names and values of the program, or none.
        let pairs = unsafe { self.pairs() };
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes")) as usize;
        while let Some((head, rest)) = bytes.split_at_checked(16) {
            let (option, len) = (number(&head[..8]) as u32, number(&head[8..]));
            let Some((log, rest)) = rest.split_at_checked(len.min(rest.len())) else { return };
            bytes = rest.get(len.next_multiple_of(8) - len..).unwrap_or_default();
            let place = pairs.iter().find(|(name, _)| *name == option).map_or(0, |pair| pair.1);
            let Some(size) = pairs.iter().position(|(name, _)| *name == option + 1) else {
                continue;
            };
            let room = pairs[size].1 as u32 as usize;
            if place == 0 || room == 0 {
                continue;
            }
            let count = log.len().min(room - 1);
            // SAFETY: the driver demands of the program that a log's buffer has the bytes of its
            // size's option, which is `room`, and `count` is lower. It writes sizes to the list of
            // values, as the driver does.
            unsafe {
                std::ptr::copy_nonoverlapping(log.as_ptr(), place as *mut u8, count);
                (place as *mut u8).add(count).write(0);
                self.values.add(size).write(count);
            }
        }
    }
}
