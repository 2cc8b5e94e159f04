//! Clang 19 with its linker and disassembler, as Debian's packages `clang-19`, `lld-19` and
//! `llvm-19` install them.

use crate::error::Result;
use std::path::Path;
use std::process::Command;

/// The GPU.
pub(crate) const TARGET: &str = "gfx906";
/// Version that made the committed images. Another may make other code of the same source.
pub(crate) const VERSION: &str = "Debian clang version 19.1.7";

const COMPILER: &str = "clang++-19";
const DISASSEMBLER: &str = "llvm-objdump-19";
/// Version 4 of code objects loads with every HIP from 5.2 on. No part of the code may depend on
/// where or by whose build of clang it was made.
const OPTIONS: &str = "-x hip --offload-device-only --no-gpu-bundle-output -nogpuinc -nogpulib \
                       -mcode-object-version=4 -fno-ident -fuse-cuid=none -O3 -std=c++17 \
                       -Wall -Werror -Wno-pass-failed";

/// Loops of this source interpret formulas. With all constants of all functions before the loop, 90
/// scalar registers spill; without that, none.
const OPTIONS_OF_TENSOR: &str = "-mllvm -disable-machine-licm";

/// The compiler that was found.
pub(crate) struct Clang {
    /// The first line that it says of itself.
    version: String,
}

impl Clang {
    pub(crate) fn find() -> Result<Self> {
        run(Command::new(DISASSEMBLER).arg("--version"))?;
        let said = run(Command::new(COMPILER).arg("--version"))?;
        Ok(Self { version: said.lines().next().unwrap_or_default().to_owned() })
    }

    /// Checks the version: images of another compiler may differ from those committed.
    pub(crate) fn is_recorded(&self) -> Result<(), String> {
        if self.version == VERSION || self.version.starts_with(&format!("{VERSION} ")) {
            return Ok(());
        }
        Err(format!("{} is not {VERSION}", self.version))
    }

    /// Compiles `source`.cu of this folder to a code object.
    pub(crate) fn compile(
        &self,
        folder: &Path,
        source: &str,
        defines: &[&str],
        output: &Path,
    ) -> Result<()> {
        let own = if source == "tensor" { OPTIONS_OF_TENSOR } else { "" };
        // The source's name without a folder, so that no path of this machine can get into the
        // image.
        run(Command::new(COMPILER)
            .current_dir(folder)
            .args(OPTIONS.split_whitespace())
            .args(own.split_whitespace())
            .arg(format!("--offload-arch={TARGET}"))
            .args(defines)
            .arg(format!("{source}.cu"))
            .arg("-o")
            .arg(std::path::absolute(output)?))?;
        Ok(())
    }

    /// Each kernel's instructions, as text.
    pub(crate) fn disassemble(&self, code_object: &Path) -> Result<String> {
        run(Command::new(DISASSEMBLER).arg("-d").arg(format!("--mcpu={TARGET}")).arg(code_object))
    }
}

/// Output of a command.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let said = command.output().map_err(|error| format!("{program}: {error}"))?;
    if !said.status.success() {
        let messages = String::from_utf8_lossy(&said.stderr);
        return Err(format!("{program}: {}\n{messages}", said.status).into());
    }
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_recorded_version_is_compared() {
        let recorded = |version: &str| Clang { version: version.to_owned() }.is_recorded().is_ok();
        assert!(recorded("Debian clang version 19.1.7 (3~deb12u1)"));
        assert!(recorded("Debian clang version 19.1.7"));
        assert!(!recorded("Debian clang version 19.1.70 (1)"));
        assert!(!recorded("Ubuntu clang version 19.1.7 (1)"));
    }
}
