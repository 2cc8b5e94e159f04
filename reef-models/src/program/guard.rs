//! Puts the guard of kernels/reef.h into a source whose kernels are [proved](super::proof).
//!
//! ```text
//! // A parameter is added as the first one.
//! extern "C" __global__ void k(reef::Guard reef_guard, float *p, float *q) {
//!   REEF_CLAIM(reef_block, reef_guard); reef_block.poll();        // the claim at entry
//!   for (…) {
//!     // At its own barriers:
//!     { reef_block.post(); __syncthreads(); if (reef_block.stop()) return; reef_block.poll(); }
//!     … p[… reef_block.x …] …                                     // for blockIdx.x
//!   }
//!   REEF_PREEMPTION_POINT(reef_block); q[…] = …;                              // the commit point
//! }
//! ```
//!
//! Why this is right: a barrier is where all threads of a block come, so they may stop there, and
//! preemption points stand only before the first statement of the body that writes to a parameter.
//! A body that may return before has the claim alone.

use super::kernels::{Kernel, statements};
use super::token::Token;
use super::uses::Uses;
use std::ops::Range;

const PARAMETER: &str = "reef::Guard reef_guard";
const CLAIM: &str = " REEF_CLAIM(reef_block, reef_guard); reef_block.poll();";
const AT_BARRIER: &str =
    "{ reef_block.post(); __syncthreads(); if (reef_block.stop()) return; reef_block.poll(); }";
const COMMIT: &str = "REEF_PREEMPTION_POINT(reef_block); ";

/// A part of the source, in bytes, and what takes its place.
type Edit = (Range<usize>, String);

/// The source with guards in its kernels.
pub(crate) fn guarded(source: &str, tokens: &[Token<'_>], kernels: &[Kernel<'_>]) -> String {
    let edits = kernels.iter().flat_map(|kernel| edits(tokens, kernel));
    let (mut text, mut at) = (String::with_capacity(source.len()), 0);
    for (range, new) in edits {
        text += &source[at..range.start];
        text += &new;
        at = range.end;
    }
    text + &source[at..]
}

/// In the order of the source.
fn edits(tokens: &[Token<'_>], kernel: &Kernel<'_>) -> Vec<Edit> {
    let insert = |at: usize, text: String| (at..at, text);
    let comma = if kernel.params.is_empty() { "" } else { ", " };
    let mut edits = vec![
        insert(tokens[kernel.open].end(), format!("{PARAMETER}{comma}")),
        insert(tokens[kernel.body.start - 1].end(), CLAIM.into()),
    ];
    let commit = commit(tokens, kernel);
    for at in kernel.body.clone() {
        let token = &tokens[at];
        if Some(at) == commit {
            edits.push(insert(token.at, COMMIT.into()));
        }
        if token.is("blockIdx") {
            edits.push((token.at..token.end(), "reef_block".into()));
        } else if token.is("__syncthreads") && commit.is_some_and(|commit| at < commit) {
            // `__syncthreads`, `(`, `)` and `;`
            if let Some(end) = tokens[at..].get(3).filter(|end| end.is(";")) {
                edits.push((token.at..end.end(), AT_BARRIER.into()));
            }
        }
    }
    edits
}

/// The first token of the first statement that writes to a parameter, if something long comes
/// before it and nothing before it returns.
fn commit(tokens: &[Token<'_>], kernel: &Kernel<'_>) -> Option<usize> {
    let first = Uses::of(kernel, tokens).writes.first()?.0;
    let begins = statements(tokens, kernel.body.clone());
    let at = *begins.iter().rfind(|begin| **begin <= first)?;
    let before = &tokens[kernel.body.start..at];
    let returns = before.iter().any(|token| token.is("return"));
    let takes_long =
        before.iter().any(|token| matches!(token.text, "for" | "while" | "__syncthreads"));
    (takes_long && !returns).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::super::kernels::kernels;
    use super::super::token::tokens;
    use super::*;

    fn body(body: &str) -> String {
        let source = format!("extern \"C\" __global__ void k(float* p, float* q) {{{body}}}");
        let tokens = tokens(&source).unwrap();
        let text = guarded(&source, &tokens, &kernels(&tokens).unwrap());
        let head = "extern \"C\" __global__ void k(reef::Guard reef_guard, float* p, float* q) {";
        let rest = text.strip_prefix(head).unwrap().strip_prefix(CLAIM).unwrap();
        rest.strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn a_short_body_is_claimed_and_takes_its_place_from_the_block() {
        assert_eq!(body("q[((int)blockIdx.x)] = p[0];"), "q[((int)reef_block.x)] = p[0];");
    }

    #[test]
    fn a_loop_polls_at_its_barriers_and_before_the_first_write() {
        let before =
            "for (;;) { __syncthreads(); s[0] = p[0]; } for (;;) q[0] = s[0]; __syncthreads();";
        let want = format!(
            "for (;;) {{ {AT_BARRIER} s[0] = p[0]; }} {COMMIT}for (;;) q[0] = s[0]; __syncthreads();"
        );
        assert_eq!(body(before), want);
    }

    #[test]
    fn no_poll_parts_an_if_from_its_else_or_follows_a_return() {
        let before = "for (;;) {} if (a) { b = 1; } else { q[0] = 1; }";
        assert_eq!(body(before), before.replace("if (a)", &format!("{COMMIT}if (a)")));
        let returns = "if (a) return; for (;;) { __syncthreads(); } q[0] = 1;";
        assert_eq!(body(returns), returns);
        let in_the_loop = "for (;;) { __syncthreads(); q[0] = 1; }";
        assert_eq!(body(in_the_loop), in_the_loop);
    }
}
