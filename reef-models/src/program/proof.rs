//! Proves that blocks of a source's kernels may be stopped and run later, each of them once.
//!
//! A block may be given back as long as no other one can have seen anything of it, and run at
//! another
//! place of another grid if nothing but `blockIdx` tells it its place. Both follow from the text
//! if it says nothing that isn't known here: kernels alone, macros that only compute, functions
//! that only compute, parameters that are used by an index.

use super::kernels::Kernel;
use super::token::{Kind, Token, tokens};
use super::uses::Uses;

/// Words that tell or do more than the text shows.
const UNKNOWN: [&str; 21] = [
    "bitand", "and_eq", "or_eq", "xor_eq", "gridDim", "asm", "__asm__", "volatile", "goto",
    "switch", "do", "auto", "typedef", "using", "struct", "class", "union", "template", "operator",
    "reef", "static",
];

/// Functions that only compute, that exchange values in a wave, or that are a barrier.
const KNOWN: [&str; 39] = [
    "max",
    "min",
    "fmaxf",
    "fminf",
    "fmax",
    "fmin",
    "abs",
    "fabsf",
    "fabs",
    "fmaf",
    "fma",
    "expf",
    "exp",
    "logf",
    "log",
    "powf",
    "pow",
    "sqrtf",
    "sqrt",
    "rsqrtf",
    "erff",
    "erf",
    "tanhf",
    "tanh",
    "floorf",
    "floor",
    "ceilf",
    "ceil",
    "roundf",
    "truncf",
    "__expf",
    "__logf",
    "__powf",
    "__fdividef",
    "__mbcnt_lo",
    "__mbcnt_hi",
    "__hip_ds_bpermute",
    "__hip_ds_bpermutef",
    "__syncthreads",
];

/// Words with a bracket behind them that are not functions.
const STATEMENTS: [&str; 5] = ["if", "for", "while", "return", "sizeof"];

/// Why blocks of these kernels may not be stopped, if that isn't proved.
pub(crate) fn unproved(all: &[Token<'_>], kernels: &[Kernel<'_>]) -> Option<String> {
    let mut macros = Vec::new();
    for (at, token) in all.iter().enumerate() {
        let before = kernels.partition_point(|kernel| kernel.whole.end <= at);
        let inside = kernels.get(before).filter(|kernel| kernel.whole.contains(&at));
        if token.kind == Kind::Directive {
            match directive(token.text) {
                Ok(name) => macros.extend(name),
                Err(why) => return Some(why),
            }
        } else if inside.is_none() && !is_linkage(token) {
            return Some(format!("{:?} stands outside of kernels", token.text));
        }
    }
    kernels.iter().find_map(|kernel| {
        body(all, kernel, &macros).map(|why| format!("kernel {}: {why}", kernel.name))
    })
}

/// `extern "C" { … }`, and what remains of declarations.
fn is_linkage(token: &Token<'_>) -> bool {
    matches!(token.text, "extern" | "\"C\"" | "{" | "}" | ";")
}

fn body(all: &[Token<'_>], kernel: &Kernel<'_>, macros: &[String]) -> Option<String> {
    if let Some(unclear) = Uses::of(kernel, all).unclear {
        return Some(unclear);
    }
    let body = &all[kernel.body.clone()];
    if let Some(token) = body.windows(2).find(|two| is_spelled_otherwise(&two[0], &two[1])) {
        return Some(format!("{:?} is used", token[0].text));
    }
    for (at, token) in body.iter().enumerate().filter(|(_, token)| token.is_word()) {
        if UNKNOWN.contains(&token.text) || token.text.starts_with("reef_") {
            return Some(format!("{} is used", token.text));
        }
        let called = body.get(at + 1).is_some_and(|next| next.is("("));
        if called && !is_known(token.text, macros) {
            return Some(format!("{} is called, which is not known here", token.text));
        }
    }
    None
}

/// Returns whether a compiler may read something else here: text, joined lines, `<:` for `[`.
fn is_spelled_otherwise(token: &Token<'_>, next: &Token<'_>) -> bool {
    let adjoin = token.end() == next.at;
    let digraph =
        (token.is("<") && (next.is("%") || next.is(":"))) || (token.is("%") && next.is(":"));
    token.kind == Kind::Text || token.is("\\") || (adjoin && digraph)
}

fn is_known(name: &str, macros: &[String]) -> bool {
    KNOWN.contains(&name)
        || STATEMENTS.contains(&name)
        || name.starts_with("__ocml_")
        || macros.iter().any(|defined| defined == name)
}

/// The name that a directive defines, if it does, by what computes with its own parameters alone.
fn directive(text: &str) -> Result<Option<String>, String> {
    let line = text.trim_end();
    let rest = line.trim_start_matches(['#', ' ']);
    let refused = || Err(format!("{line:?} is not known here"));
    // A comment that begins here may go on in the next lines.
    let has_comment = rest.contains("/*");
    if rest == "include <hip/hip_runtime.h>" || rest.starts_with("pragma unroll") && !has_comment {
        return Ok(None);
    }
    let Some(define) = rest.strip_prefix("define") else { return refused() };
    let Ok(tokens) = tokens(define) else { return refused() };
    let Some((name, rest)) = tokens.split_first() else { return refused() };
    let has_parameters = rest.first().is_some_and(|next| next.is("(") && next.at == name.end());
    let end = rest.iter().position(|token| token.is(")")).filter(|_| has_parameters);
    let (parameters, body) = rest.split_at(end.map_or(0, |end| end + 1));
    let own =
        |token: &Token<'_>| parameters.iter().any(|other| other.is_word() && other.is(token.text));
    let computes = |token: &Token<'_>| match token.kind {
        Kind::Word => own(token),
        Kind::Number => true,
        Kind::Sign => matches!(
            token.text,
            "+" | "-" | "*" | "/" | "%" | "(" | ")" | "<" | ">" | "?" | ":" | ","
        ),
        Kind::Text | Kind::Directive => false,
    };
    if body.iter().all(computes) && may_be_defined(name) {
        Ok(Some(name.text.into()))
    } else {
        refused()
    }
}

/// Returns whether a macro of this name changes nothing that is known here, or put into the source.
fn may_be_defined(name: &Token<'_>) -> bool {
    let own = ["threadIdx", "blockDim", "post", "stop", "poll", "Guard", "Block", "Turns"];
    let taken = [&own[..], &UNKNOWN, &KNOWN, &STATEMENTS].concat();
    let lower = name.text.to_ascii_lowercase();
    name.is_word() && !taken.contains(&name.text) && !lower.starts_with("reef")
}

#[cfg(test)]
mod tests {
    use super::super::kernels::kernels;
    use super::*;

    fn why(before: &str, body: &str) -> Option<String> {
        let source =
            format!("{before}\nextern \"C\" __global__ void k(float *p, float *q) {{ {body} }}");
        let tokens = tokens(&source).unwrap();
        unproved(&tokens, &kernels(&tokens).unwrap())
    }

    #[test]
    fn generated_kernels_are_proved() {
        let before =
            "#include <hip/hip_runtime.h>\n#define __ocml_fma_f32(a,b,c) a*b+c\n#define N 64";
        let body = "__shared__ float s[N];\n#pragma unroll N // all\nfor (int i = 0; i < 2; ++i) { __syncthreads(); s[0] = p[i]; }\n\
            if (((int)threadIdx.x) < 3) { q[((int)blockIdx.x)] = max(__ocml_fma_f32(s[0], 2.0f, p[1]), 0.0f); }";
        assert_eq!(why(before, body), None);
    }

    #[test]
    fn unknown_words_are_refused_with_the_reason() {
        let of = |body| why("", body).unwrap();
        assert_eq!(of("q[gridDim.x] = 1;"), "kernel k: gridDim is used");
        assert_eq!(of("q[0] = other(1);"), "kernel k: other is called, which is not known here");
        assert_eq!(of("float *r = q;"), "kernel k: q is used without an index");
        assert_eq!(of("q<:0:> = 1;"), "kernel k: q is used without an index");
        assert_eq!(of("float a = blo\\\nckIdx.x;"), "kernel k: \"\\\\\" is used");
        assert_eq!(of("atomicAdd(q, 1);"), "kernel k: q is used without an index");
        assert_eq!(
            why("__device__ float f(float x) { return x; }", "").unwrap(),
            "\"__device__\" stands outside of kernels"
        );
        for define in [
            "#define W q[0] = ",
            "#define block blockIdx",
            "#define f(x) x##1",
            "#ifdef X",
            "#define __syncthreads() 0",
            "#include \"other.h\"",
            "#define I i++",
            "#pragma unroll /* 4",
        ] {
            assert_eq!(
                why(define, "").unwrap(),
                format!("{define:?} is not known here").replace("= \"", "=\""),
                "{define}"
            );
        }
    }
}
