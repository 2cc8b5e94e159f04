//! Resources of a multiprocessor that each kernel takes, as a table that is committed: a kernel
//! that spills or grows shows as a changed line.

use crate::error::Result;

/// Registers of a multiprocessor, of every GPU from sm_70 to sm_90.
const REGISTERS: u32 = 65536;
/// Bytes of shared memory that a kernel may have without asking for more.
const SHARED: u32 = 48 << 10;

/// Resources of one kernel on one target.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(super) kernel: String,
    /// Per thread.
    pub(super) registers: u32,
    /// The most threads of a block, from its launch bounds.
    pub(super) threads: Option<u32>,
    /// Bytes, as are all below.
    pub(super) stack: u32,
    pub(super) spill_stores: u32,
    pub(super) spill_loads: u32,
    /// Per block, without what a launch adds.
    pub(super) shared: u32,
}

/// Reads what `ptxas -v` says, and the launch bounds from the PTX.
pub(crate) fn parse(messages: &str, ptx: &str) -> Result<Vec<Resources>> {
    let mut kernels: Vec<Resources> = Vec::new();
    for line in messages.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or(rest).to_owned();
            let threads = threads(ptx, &kernel);
            kernels.push(Resources { kernel, threads, ..Resources::default() });
        } else if let Some(kernel) = kernels.last_mut() {
            kernel.read(line);
        }
    }
    match kernels.iter().find(|kernel| kernel.registers == 0) {
        Some(kernel) => {
            Err(format!("ptxas says no registers of {}:\n{messages}", kernel.kernel).into())
        }
        None => Ok(kernels),
    }
}

impl Resources {
    /// Takes what one line says: `Used 8 registers, 128 bytes smem` or the line on stack and
    /// spills.
    fn read(&mut self, line: &str) {
        let line = line.strip_prefix("ptxas info    : Used").unwrap_or(line);
        for part in line.split(',') {
            let Some((number, what)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse() else { continue };
            match what {
                "registers" => self.registers = number,
                "bytes stack frame" => self.stack = number,
                "bytes spill stores" => self.spill_stores = number,
                "bytes spill loads" => self.spill_loads = number,
                "bytes smem" => self.shared = number,
                _ => {}
            }
        }
    }

    pub(super) fn excess(&self) -> Option<&'static str> {
        if self.spill_stores + self.spill_loads > 0 {
            Some("spills registers")
        } else if self.registers * self.threads.unwrap_or(1) > REGISTERS {
            Some("a block needs more registers than there are")
        } else if self.shared > SHARED {
            Some("a block needs more than 48 KiB of shared memory")
        } else {
            None
        }
    }
}

/// The product of a kernel's `.maxntid` or `.reqntid`.
fn threads(ptx: &str, kernel: &str) -> Option<u32> {
    let entry = ptx.split_once(&format!(".entry {kernel}("))?.1;
    let head = entry.split('{').next()?;
    let bounds = [".maxntid ", ".reqntid "].iter().find_map(|word| head.split_once(word))?.1;
    bounds.lines().next()?.split(',').map(|number| number.trim().parse::<u32>().ok()).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'step' for 'sm_70'
ptxas info    : Function properties for step
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 32 registers, 4096 bytes smem, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'relu' for 'sm_70'
ptxas info    : Function properties for relu
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, 380 bytes cmem[0]
";
    const PTX: &str = "\
.visible .entry relu(
	.param .u64 relu_param_0
)
.maxntid 512, 1, 1
.minnctapersm 1
{
}
.visible .entry step(
	.param .u64 step_param_0
)
{
}
";

    #[test]
    fn output_of_ptxas_is_read() {
        let kernels = parse(MESSAGES, PTX).unwrap();
        let step = Resources {
            kernel: "step".into(),
            registers: 32,
            threads: None,
            stack: 16,
            spill_stores: 8,
            spill_loads: 4,
            shared: 4096,
        };
        let relu = Resources {
            kernel: "relu".into(),
            registers: 255,
            threads: Some(512),
            ..Resources::default()
        };
        assert_eq!(kernels, [step, relu]);
        let excesses: Vec<_> = kernels.iter().map(Resources::excess).collect();
        let registers = "a block needs more registers than there are";
        assert_eq!(excesses, [Some("spills registers"), Some(registers)]);
    }
}
