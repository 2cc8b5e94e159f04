//! Options of a load, as the driver reads them: names are numbers of 32 bits, and values words, of
//! which some are addresses.

use reef_cuda_abi::codes::*;
use std::ffi::{CStr, c_char};

/// Highest option that there is.
const LAST: u32 = 33;
/// Places of logs; each is followed by the number of its size's option.
const LOGS: [u32; 2] = [3, 5];
/// Lists of names, and the options of their lengths: symbols, kernels, variables.
const LISTS: [(u32, u32); 3] = [(17, 19), (25, 26), (27, 28)];
const WALL_TIME: u32 = 2;

/// Options of a load.
pub(super) struct Options(Vec<(u32, *mut usize)>);

impl Options {
    /// # Safety
    ///
    /// Lists of `count` names and values, whose addresses may be used.
    pub(super) unsafe fn read(
        count: u32,
        names: *const u32,
        values: *mut usize,
    ) -> Result<Self, u32> {
        // SAFETY: `# Safety` demands `count` names and values, and `at` is lower.
        let pair = |at| unsafe { (*names.add(at), values.add(at)) };
        let all: Vec<_> = (0..count as usize).map(pair).collect();
        if all.iter().any(|(name, _)| *name > LAST) {
            return Err(INVALID_VALUE);
        }
        let options = Self(all);
        for (list, len) in LISTS {
            let Some(at) = options.value(list) else { continue };
            for name in 0..options.value(len).unwrap_or(0) {
                // SAFETY: `# Safety` demands that addresses among the values may be used. This one
                // has `len` strings.
                let _ = unsafe { CStr::from_ptr(*(at as *const *const c_char).add(name)) };
            }
        }
        Ok(options)
    }

    /// The last value of an option counts.
    fn value(&self, name: u32) -> Option<usize> {
        let found = self.0.iter().rev().find(|(known, _)| *known == name);
        // SAFETY: only `read` makes such values, and its `# Safety` demands that they may be used
        // as long as this lives.
        found.map(|(_, value)| unsafe { **value })
    }

    /// Writes both logs, and the time that it took.
    ///
    /// # Safety
    ///
    /// Addresses among the values may still be used, as for [`read`](Self::read).
    pub(super) unsafe fn write(&self, code: u32) {
        let texts = [c"ptxas info    : it was read", c"ptxas fatal   : it cannot be read"];
        for (log, text) in LOGS.into_iter().zip(texts) {
            let len = self.value(log + 1).unwrap_or(0) as u32 as usize;
            let text = text.to_bytes_with_nul();
            let is_written = (log == LOGS[1]) == (code != SUCCESS);
            let Some(place) = self.value(log).filter(|_| is_written) else { continue };
            // SAFETY: `read` demands that a log's place has the bytes of its size's option, which
            // is `len`.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), place as *mut u8, text.len().min(len));
            }
        }
        for (_, value) in self.0.iter().filter(|(name, _)| *name == WALL_TIME) {
            // SAFETY: `read` demands that the list of values may be used, and the driver writes
            // results to it.
            unsafe { value.write(1.5_f32.to_bits() as usize) };
        }
    }
}
