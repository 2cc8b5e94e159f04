//! GPUs that an image is for.

use crate::sources::HOPPER;
use std::fmt;

/// GPUs that an image is for, and its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Machine code for a compute capability (90 is 9.0) and later ones of its generation.
    Cubin(u32),
    /// NVIDIA's assembly, for any GPU from this capability on.
    Ptx(u32),
    /// Machine code for this capability alone, by instructions that no other has.
    Own(u32),
}

/// Targets of a source: `reef-cuda/src/code/image.rs` chooses among them.
pub(crate) fn targets(source: &str) -> &'static [Target] {
    if source == HOPPER {
        return &[Target::Own(90)];
    }
    &[Target::Cubin(70), Target::Cubin(86), Target::Cubin(90), Target::Ptx(80)]
}

impl Target {
    /// The capability.
    pub(crate) fn arch(self) -> u32 {
        let (Self::Cubin(arch) | Self::Ptx(arch) | Self::Own(arch)) = self;
        arch
    }

    /// Name and folder of the package that has its images.
    pub(crate) fn package(self) -> String {
        format!("reef-cuda-images-sm{}", self.arch())
    }

    /// Name of the GPU that `ptxas` compiles for.
    pub(crate) fn gpu(self) -> String {
        let own = if let Self::Own(_) = self { "a" } else { "" };
        format!("sm_{}{own}", self.arch())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Ptx(arch) => write!(f, "compute_{arch}"),
            Self::Cubin(_) | Self::Own(_) => f.write_str(&self.gpu()),
        }
    }
}

/// PTX of the pinned NVRTC as the assembler of [`Target::Own`] takes it. NVRTC passes the
/// instructions of `asm` on unread, but writes a version and a target that don't have them.
///
/// # Errors
///
/// The head that is missing.
pub(crate) fn for_own(ptx: &str) -> Result<String, String> {
    let heads = [(".version 7.8\n", ".version 8.0\n"), (".target sm_90\n", ".target sm_90a\n")];
    heads.iter().try_fold(ptx.to_owned(), |ptx, (from, to)| {
        let found = ptx.contains(from).then(|| ptx.replacen(from, to, 1));
        found.ok_or_else(|| format!("PTX must have the line {:?}, got none", from.trim_end()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hopper_has_instructions_of_one_capability() {
        let names = |source| targets(source).iter().map(Target::to_string).collect::<Vec<_>>();
        assert_eq!(names(HOPPER), ["sm_90a"]);
        assert_eq!(names("network"), ["sm_70", "sm_86", "sm_90", "compute_80"]);
        assert_eq!(targets(HOPPER)[0].package(), "reef-cuda-images-sm90");
    }

    #[test]
    fn head_of_ptx_becomes_that_of_the_assembler() {
        let ptx = "//\n.version 7.8\n.target sm_90\n.address_size 64\n";
        assert_eq!(for_own(ptx).unwrap(), "//\n.version 8.0\n.target sm_90a\n.address_size 64\n");
        let error = for_own("//\n.version 8.8\n.target sm_90\n").unwrap_err();
        assert_eq!(error, "PTX must have the line \".version 7.8\", got none");
    }
}
