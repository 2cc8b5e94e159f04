//! Element types of tensors, and the numbers that they are computed with.

use std::fmt;

/// Element type of a tensor in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Element {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single.
    BF16,
    /// IEEE double precision.
    F64,
    /// Signed, 8 bytes.
    I64,
    /// Signed, 4 bytes.
    I32,
    /// Signed, 2 bytes.
    I16,
    /// Signed, 1 byte.
    I8,
    /// Unsigned, 8 bytes.
    U64,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 1 byte.
    U8,
    /// One byte; everything but 0 is true.
    Bool,
}

/// Type of the numbers that an operation computes with. Elements are converted to it when they are
/// read, and back when they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Domain {
    /// Single precision, for all floats up to it.
    F32,
    /// Double precision.
    F64,
    /// Signed integers and truth values. They wrap.
    I64,
    /// Unsigned integers. They wrap.
    U64,
}

impl Element {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Returns whether it has a fraction.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16 | Self::F64)
    }

    /// The numbers that hold each of its values.
    pub fn domain(self) -> Domain {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => Domain::F32,
            Self::F64 => Domain::F64,
            Self::U64 => Domain::U64,
            _ => Domain::I64,
        }
    }

    /// Returns numpy's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
            Self::F64 => "float64",
            Self::I64 => "int64",
            Self::I32 => "int32",
            Self::I16 => "int16",
            Self::I8 => "int8",
            Self::U64 => "uint64",
            Self::U32 => "uint32",
            Self::U16 => "uint16",
            Self::U8 => "uint8",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
