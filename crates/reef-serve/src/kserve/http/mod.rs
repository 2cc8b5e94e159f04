//! The standard protocol over HTTP, with tensors as JSON or as binary data after it; also OpenAI's
//! calls for text, `/metrics`, `/reef/trace`, `/reef/devices`, and the page at `/`.

mod bounded;
mod describe;
mod devices;
pub(crate) mod generate;
pub(crate) mod infer;
mod json;
mod memory;
mod numbers;
mod openai;
pub(crate) mod page;
mod reply;
mod repository;
pub(crate) mod serve;
mod suspended;
pub(crate) mod trace;
