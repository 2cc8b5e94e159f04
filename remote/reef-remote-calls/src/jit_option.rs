//! Options of a compilation or a link that a program and a server agree on.

/// Option whose value is a number. Those with addresses of the program's are none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "as the driver names them")]
pub enum JitNumber {
    MaxRegisters = 0,
    ThreadsPerBlock = 1,
    OptimizationLevel = 7,
    TargetFromContext = 8,
    Target = 9,
    FallbackStrategy = 10,
    GenerateDebugInfo = 11,
    LogVerbose = 12,
    GenerateLineInfo = 13,
    CacheMode = 14,
    Lto = 20,
    Ftz = 21,
    PreciseDivision = 22,
    PreciseSquareRoot = 23,
    Fma = 24,
    OptimizeUnusedVariables = 29,
    PositionIndependentCode = 30,
    MinBlocksPerMultiprocessor = 31,
    MaxThreadsPerBlock = 32,
    OverrideDirectiveValues = 33,
}

/// Log of a compilation or a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "as the driver names them")]
pub enum JitLog {
    Info = 3,
    Error = 5,
}

/// Option by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitOption {
    /// One with a number.
    Number(JitNumber),
    /// Place for a log.
    Log(JitLog),
    /// Bytes of that place.
    LogLen(JitLog),
    /// Place for the time that it took, which a program elsewhere does not get.
    WallTime,
}

/// All options with numbers.
const NUMBERS: [JitNumber; 20] = [
    JitNumber::MaxRegisters,
    JitNumber::ThreadsPerBlock,
    JitNumber::OptimizationLevel,
    JitNumber::TargetFromContext,
    JitNumber::Target,
    JitNumber::FallbackStrategy,
    JitNumber::GenerateDebugInfo,
    JitNumber::LogVerbose,
    JitNumber::GenerateLineInfo,
    JitNumber::CacheMode,
    JitNumber::Lto,
    JitNumber::Ftz,
    JitNumber::PreciseDivision,
    JitNumber::PreciseSquareRoot,
    JitNumber::Fma,
    JitNumber::OptimizeUnusedVariables,
    JitNumber::PositionIndependentCode,
    JitNumber::MinBlocksPerMultiprocessor,
    JitNumber::MaxThreadsPerBlock,
    JitNumber::OverrideDirectiveValues,
];

impl JitOption {
    /// Reads the driver's number of an option. `None`: it is not passed on.
    pub fn of(number: u64) -> Option<Self> {
        const WALL_TIME: u64 = 2;
        let logs = [JitLog::Info, JitLog::Error].into_iter();
        let log = logs.clone().find(|log| *log as u64 == number).map(Self::Log);
        let len = || logs.clone().find(|log| *log as u64 + 1 == number).map(Self::LogLen);
        let named = || NUMBERS.into_iter().find(|name| *name as u64 == number).map(Self::Number);
        let time = (number == WALL_TIME).then_some(Self::WallTime);
        time.or(log).or_else(len).or_else(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_with_an_address_or_more_bits_is_none() {
        assert_eq!(JitOption::of(0), Some(JitOption::Number(JitNumber::MaxRegisters)));
        assert_eq!(JitOption::of(5), Some(JitOption::Log(JitLog::Error)));
        assert_eq!(JitOption::of(6), Some(JitOption::LogLen(JitLog::Error)));
        for number in [17, 18, 19, 25, 26, 27, 28, 34, 1 << 31, (1 << 32) + 5, u64::MAX] {
            assert_eq!(JitOption::of(number), None, "{number}");
        }
    }
}
