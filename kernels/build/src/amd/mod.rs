//! Images for AMD's gfx906 (MI50), with Debian's clang.
//!
//! ```text
//! source ─clang→ code object ─zlib→ reef-hip/images/NAME-BUILD-gfx906.z
//!                     ├─metadata→ resources.txt, rules
//!                     └─llvm-objdump→ rules
//! ```

mod clang;
mod code_object;
#[cfg(test)]
mod hiprtc;
mod image;
mod lint;
mod listing;
mod live;
pub(crate) mod make;
mod table;
