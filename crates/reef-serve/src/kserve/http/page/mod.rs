//! The page at `/`: what is loaded, which programs run, and the last minutes, for a browser.
//!
//! - **In**: a [`Sample`](sample::Sample) of the daemon each second.
//! - **Out**: one HTML page without script of its own text, and a stream of its changing part.
//! - **Invariant**: names of others reach the page only through [`Markup::text`](markup::Markup),
//!   which escapes them. The page changes nothing, and its policy lets a browser load nothing but
//!   its own script and style.

mod chart;
pub(crate) mod feed;
mod history;
mod markup;
mod render;
mod sample;
pub(crate) mod serve;
