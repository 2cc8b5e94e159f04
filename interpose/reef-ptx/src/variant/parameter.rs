//! The variant's own parameter.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | address of the stop word |
//! | 8 | 8 | address of the map: a byte for each block of the whole grid |
//! | 16 | 4 | 0: first run; else resume of this run and those after it |
//! | 20 | 4 | number of this run |
//! | 24 | 12 | offset of this launch's blocks in the grid: x, y, z |
//! | 36 | 12 | size of the whole grid: x, y, z |
//! | 48 | 8 | address of the word to which a stopped block writes this run's number |
//! | 56 | 8 | address of that word of the runs that are resumed |

use crate::text::edit::Edit;
use crate::text::function::Function;

/// Name of the parameter.
const PARAMETER: &str = "$reef";

/// Bytes of the parameter, which is aligned to 8.
pub(crate) const BYTES: usize = 64;

/// Adds the parameter to a kernel, behind its own ones.
pub(super) fn add(edit: &mut Edit, kernel: &Function<'_>) {
    let declaration = format!(".param .align 8 .b8 {PARAMETER}[{}]", BYTES);
    let list = match (kernel.has_list, kernel.parameters.is_empty()) {
        (false, _) => format!("({declaration})"),
        (true, true) => declaration,
        (true, false) => format!(", {declaration}"),
    };
    edit.insert(kernel.list_end, list);
}

/// Run of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The first one, or a slice.
    First,
    /// A later one: blocks whose byte is 0 leave. It resumes the run with this number, which is not
    /// 0, and those after it.
    Resume(u32),
}

/// Contents of the variant's own parameter, for one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Device address of 4 bytes. Blocks that see this run's number there, or a later one, leave.
    pub stop: u64,
    /// Device address of a byte for each block of the whole grid, x fastest.
    pub map: u64,
    /// Run of the launch.
    pub mode: Mode,
    /// Number of the run. Numbers rise, and wrap around.
    pub number: u32,
    /// Position of this launch's first block in the whole grid.
    pub offset: [u32; 3],
    /// Size of the whole grid, in blocks.
    pub grid: [u32; 3],
    /// Device address of 4 bytes, to which a stopped block writes this run's number.
    pub left: u64,
    /// Device address of these 4 bytes of the runs that are resumed. A resume that sees an earlier
    /// number there does nothing.
    pub left_before: u64,
}

impl Launch {
    /// The parameter's bytes.
    pub fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.stop.to_le_bytes());
        put(8, &self.map.to_le_bytes());
        let from = if let Mode::Resume(from) = self.mode { from } else { 0 };
        put(16, &from.to_le_bytes());
        put(20, &self.number.to_le_bytes());
        for dimension in 0..3 {
            put(24 + 4 * dimension, &self.offset[dimension].to_le_bytes());
            put(36 + 4 * dimension, &self.grid[dimension].to_le_bytes());
        }
        put(48, &self.left.to_le_bytes());
        put(56, &self.left_before.to_le_bytes());
        bytes
    }
}
