//! OpenAI's calls for models that generate text: `/v1/chat/completions`, `/v1/completions` and
//! `/v1/models`.
//!
//! - **In**: a request, whose parameters are checked and passed on; none is dropped.
//! - **Out**: the parts of the model's answer, as one object or as server-sent events.
//! - **Invariant**: a request runs as those of `generate_stream` do, with the same class, charges,
//!   timeouts and cancellation. Errors have OpenAI's form, also those before the call.

mod answer;
mod messages;
mod request;
pub(super) mod serve;
