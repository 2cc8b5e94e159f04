//! Options of a compilation or a link.

use crate::reader::Reader;
use reef_wire::{Error, Result};

/// Upper bound of the options of a load or a link.
const MAX_OPTIONS: u32 = 32;
/// Upper bound of a log that a program asks for.
const MAX_LOG_LEN: u64 = 1 << 20;
/// `CU_JIT_INFO_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER`: each is followed by its size's option.
const LOGS: [u64; 2] = [3, 5];
/// Options whose values are places that the driver writes to, other than logs' sizes.
const WALL_TIME: u64 = 2;
/// Options whose values are addresses of the program's.
const SYMBOLS: std::ops::RangeInclusive<u64> = 17..=19;

/// Options of the driver's, with places for logs.
pub(crate) struct JitOptions {
    names: Vec<u32>,
    values: Vec<usize>,
    logs: Vec<(u64, Vec<u8>)>,
}

/// Reads pairs of option and value.
///
/// # Errors
///
/// `Protocol` if there are too many, or the body is too short.
pub(crate) fn read_options(rest: &mut Reader<'_>, count: u32) -> Result<Vec<(u64, u64)>> {
    if count > MAX_OPTIONS {
        return Err(Error::Protocol(format!("load: {count} options")));
    }
    (0..count).map(|_| Ok((rest.word()?, rest.word()?))).collect()
}

impl JitOptions {
    pub(crate) fn new(options: &[(u64, u64)]) -> Self {
        let mut made = Self { names: Vec::new(), values: Vec::new(), logs: Vec::new() };
        for &(option, value) in options {
            if option == WALL_TIME || SYMBOLS.contains(&option) {
                continue;
            }
            made.names.push(option as u32);
            if LOGS.contains(&option) {
                let size = options.iter().find(|(name, _)| *name == option + 1);
                let size = size.map_or(0, |size| size.1).min(MAX_LOG_LEN) as usize;
                let log = vec![0; size + 1];
                made.values.push(log.as_ptr() as usize);
                made.logs.push((option, log));
            } else if LOGS.contains(&option.wrapping_sub(1)) {
                made.values.push(value.min(MAX_LOG_LEN) as usize);
            } else {
                made.values.push(value as usize);
            }
        }
        made
    }

    /// Number of options, and the addresses of their names and values.
    pub(crate) fn arguments(&mut self) -> (usize, usize, usize) {
        (self.names.len(), self.names.as_ptr() as usize, self.values.as_mut_ptr() as usize)
    }

    /// Logs as the client expects them: option, length, and text up to a multiple of eight bytes.
    pub(crate) fn logs(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (option, log) in &self.logs {
            let len = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            bytes.extend_from_slice(&option.to_le_bytes());
            bytes.extend_from_slice(&(len as u64).to_le_bytes());
            bytes.extend_from_slice(&log[..len]);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }
}
