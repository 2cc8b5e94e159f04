//! Exchanges of values in a wave, as far as they work on GPUs of every width: see
//! kernels/hip_flavour.h.

use super::kernels::{Kernel, closing, statements};
use super::token::Token;

/// Lanes of a wave that sources for AMD's GPUs know.
const WAVE: u32 = 64;

/// Exchanges of a kernel, by the blocks in which they work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchanges {
    /// It has none.
    None,
    /// Whole waves come to all of them, or lanes ask for their own values.
    Whole,
    /// One with other lanes stands in a branch or loop.
    InBranch,
}

impl Exchanges {
    pub(crate) fn of(all: &[Token<'_>], kernel: &Kernel<'_>) -> Self {
        let mut exchanges = kernel.body.clone().filter(|&at| is_exchange(&all[at])).peekable();
        if exchanges.peek().is_none() {
            return Self::None;
        }
        let in_branch = exchanges.any(|at| !is_own(all, at) && is_in_branch(all, kernel, at));
        if in_branch { Self::InBranch } else { Self::Whole }
    }

    /// Reason for which they don't work in blocks of `threads` threads, if they don't.
    pub(crate) fn fault(self, threads: u32) -> Option<String> {
        match self {
            Self::None => None,
            _ if threads != WAVE => Some(format!(
                "exchanges values in a wave of {WAVE} lanes, and has {threads} threads"
            )),
            Self::Whole => None,
            Self::InBranch => Some("exchanges values with other lanes in a branch or loop".into()),
        }
    }
}

pub(crate) fn is_exchange(token: &Token<'_>) -> bool {
    token.is_word() && token.text.starts_with("__hip_ds_bpermute")
}

/// Returns whether a lane asks for its own value: the index is its thread's.
fn is_own(body: &[Token<'_>], at: usize) -> bool {
    let end = closing(body, at + 1).unwrap_or(at + 1);
    let mut depth = 0usize;
    for token in &body[at + 1..end.max(at + 1)] {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "," if depth == 1 => return false,
            "threadIdx" => return true,
            _ => {}
        }
    }
    false
}

/// Returns whether some threads of a block may not come here.
fn is_in_branch(all: &[Token<'_>], kernel: &Kernel<'_>, at: usize) -> bool {
    let begins = statements(all, kernel.body.clone());
    let begin = begins.into_iter().rfind(|begin| *begin <= at).unwrap_or(kernel.body.start);
    let branches = |token: &Token<'_>| {
        matches!(token.text, "if" | "for" | "while" | "else" | "{" | "?" | "&&" | "||")
    };
    all[begin..at].iter().any(branches)
}

#[cfg(test)]
mod tests {
    use super::super::kernels::kernels;
    use super::super::token::tokens;
    use super::*;

    fn why(body: &str, threads: u32) -> Option<String> {
        let source = format!("extern \"C\" __global__ void k(float *p) {{ {body} }}");
        let tokens = tokens(&source).unwrap();
        Exchanges::of(&tokens, &kernels(&tokens).unwrap()[0]).fault(threads)
    }

    #[test]
    fn only_ones_own_value_is_asked_for_in_branches() {
        let own =
            "if (a) { s = __hip_ds_bpermute(((((int)threadIdx.x) + (lane & (~63))) << 2), s); }";
        let tree = "s = __hip_ds_bpermute(((((lane & 63) + 32) >= 64) ? lane : (lane + 32)) << 2, t[(threadIdx.x)]);";
        assert_eq!(why(own, 64), None);
        assert_eq!(why(tree, 64), None);
        assert!(why(&format!("if (a) {{ {tree} }}"), 64).unwrap().ends_with("in a branch or loop"));
        assert!(why(&format!("for (;;) {tree}"), 64).is_some());
        assert_eq!(
            why(tree, 128).unwrap(),
            "exchanges values in a wave of 64 lanes, and has 128 threads"
        );
        assert_eq!(why("p[0] = 1;", 128), None);
    }
}
