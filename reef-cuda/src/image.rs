//! placeholder
use reef_core::{Error, Result};
use std::borrow::Cow;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Plain,
    Guarded,
}
pub(crate) fn find(_: &str, build: Build, _: (u32, u32)) -> Result<Cow<'static, [u8]>> {
    let _ = matches!(build, Build::Plain | Build::Guarded);
    Err(Error::State("no images"))
}
