//! placeholder
use reef_core::{Error, Result};
use std::borrow::Cow;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Plain,
    Guarded,
}
pub(crate) fn find(name: &str, build: Build, _: (u32, u32)) -> Result<Cow<'static, [u8]>> {
    let b = match build {
        Build::Plain => "plain",
        Build::Guarded => "guarded",
    };
    let dir = std::env::var("REEF_IMAGES").map_err(|_| Error::State("no images"))?;
    std::fs::read(format!("{dir}/{name}-{b}.cubin"))
        .map(Cow::Owned)
        .map_err(|_| Error::State("no image"))
}
