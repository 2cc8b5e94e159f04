//! Options of a compilation or a link, built of what a client asks for.

use crate::reader::Reader;
use reef_cuda_abi::codes::INVALID_VALUE;
use reef_remote_calls::{JitLog, JitNumber, JitOption};
use reef_wire::{Error, Result};

/// Upper bound of the options of a load or a link.
const MAX_OPTIONS: u32 = 32;
/// Upper bound of a log that a program asks for.
const MAX_LOG_LEN: u32 = 1 << 20;

/// Options that a client asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AskedOptions {
    numbers: Vec<(JitNumber, u32)>,
    /// Logs that it has a place for.
    logs: Vec<JitLog>,
    /// Bytes of those places.
    lens: Vec<(JitLog, u32)>,
}

/// Reads pairs of option and value. The inner error is the driver's code for one that is not
/// passed on.
///
/// # Errors
///
/// `Protocol` if there are too many, or the body is too short.
pub(crate) fn read_options(rest: &mut Reader<'_>, count: u32) -> Result<Result<AskedOptions, u32>> {
    if count > MAX_OPTIONS {
        return Err(Error::Protocol(format!("load: {count} options")));
    }
    let pairs = (0..count).map(|_| Ok((rest.word()?, rest.word()?)));
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    Ok(AskedOptions::of(&pairs).ok_or(INVALID_VALUE))
}

impl AskedOptions {
    /// `None`: an option that is not passed on, or a value of more than 32 bits.
    fn of(pairs: &[(u64, u64)]) -> Option<Self> {
        let mut asked = Self::default();
        for &(option, value) in pairs {
            let value = u32::try_from(value).ok()?;
            match JitOption::of(option)? {
                JitOption::Number(name) => asked.numbers.push((name, value)),
                JitOption::Log(log) => asked.logs.push(log),
                JitOption::LogLen(log) => asked.lens.push((log, value)),
                JitOption::WallTime => {}
            }
        }
        Some(asked)
    }

    /// Bytes of a log; `None` without a place for it.
    fn len(&self, log: JitLog) -> Option<u32> {
        let len = self.lens.iter().find(|(of, len)| *of == log && *len > 0);
        let len = len.filter(|_| self.logs.contains(&log));
        len.map(|(_, len)| (*len).min(MAX_LOG_LEN))
    }
}

/// Options of the driver's, with places for logs.
#[derive(Debug, Default)]
pub(crate) struct JitOptions {
    names: Vec<u32>,
    values: Vec<usize>,
    logs: Vec<(JitLog, Vec<u8>)>,
}

impl JitOptions {
    pub(crate) fn new(asked: &AskedOptions) -> Self {
        let mut made = Self::default();
        for &(name, value) in &asked.numbers {
            made.push(name as u32, value as usize);
        }
        for log in [JitLog::Info, JitLog::Error] {
            let Some(len) = asked.len(log) else { continue };
            let place = vec![0; len as usize];
            made.push(log as u32, place.as_ptr() as usize);
            made.push(log as u32 + 1, place.len());
            made.logs.push((log, place));
        }
        made
    }

    fn push(&mut self, name: u32, value: usize) {
        self.names.push(name);
        self.values.push(value);
    }

    /// Number of options, and the addresses of their names and values.
    pub(crate) fn arguments(&mut self) -> (usize, usize, usize) {
        (self.names.len(), self.names.as_ptr() as usize, self.values.as_mut_ptr() as usize)
    }

    /// Logs as the client expects them: option, length, and text up to a multiple of eight bytes.
    pub(crate) fn logs(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (log, text) in &self.logs {
            let len = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
            bytes.extend_from_slice(&(*log as u64).to_le_bytes());
            bytes.extend_from_slice(&(len as u64).to_le_bytes());
            bytes.extend_from_slice(&text[..len]);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_with_an_address_is_refused() {
        for option in [5 | 1 << 32, 17, 25, 27] {
            assert_eq!(AskedOptions::of(&[(option, 0x4141)]), None, "{option}");
        }
        assert_eq!(AskedOptions::of(&[(0, 1 << 32)]), None, "a value of more than 32 bits");
    }

    #[test]
    fn log_has_one_place_of_the_bytes_that_are_named() {
        let pairs = [(5, 0x4141), (6, 64), (5, 0x4242), (6, 4096), (0, 32), (2, 0)];
        let options = JitOptions::new(&AskedOptions::of(&pairs).unwrap());
        assert_eq!(options.names, [0, 5, 6]);
        assert_eq!(options.logs.len(), 1);
        let place = &options.logs[0].1;
        assert_eq!(options.values, [32, place.as_ptr() as usize, 64]);
        assert_eq!(place.len(), 64);
    }

    #[test]
    fn log_without_a_place_or_a_length_is_left_out() {
        for pairs in [&[(3, 1)][..], &[(4, 64)], &[(3, 1), (4, 0)], &[(3, 1), (6, 64)]] {
            assert!(
                JitOptions::new(&AskedOptions::of(pairs).unwrap()).names.is_empty(),
                "{pairs:?}"
            );
        }
    }
}
