//! Kernels of a source: their places and their parameters.

use super::token::{Kind, Token};
use std::ops::Range;

/// A kernel's definition. Ranges are of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel<'a> {
    pub(crate) name: &'a str,
    /// Names of its parameters, all of them pointers.
    pub(crate) params: Vec<&'a str>,
    /// The `(` before them.
    pub(crate) open: usize,
    /// From its first token, which may be `extern`, to behind its last.
    pub(crate) whole: Range<usize>,
    /// Tokens between its braces.
    pub(crate) body: Range<usize>,
}

/// Maximum number of kernels of a source. REEF's networks have 75 at most.
const MAX_KERNELS: usize = 1024;

/// All kernels that are defined, in order.
///
/// # Errors
///
/// The first fault, in words.
pub(crate) fn kernels<'a>(tokens: &[Token<'a>]) -> Result<Vec<Kernel<'a>>, String> {
    let (mut kernels, mut at) = (Vec::<Kernel<'a>>::new(), 0);
    while let Some(found) = tokens[at..].iter().position(|token| token.is("__global__")) {
        let kernel = kernel(tokens, at + found)?;
        at = kernel.whole.end;
        if kernels.iter().any(|other| other.name == kernel.name) {
            return Err(format!("kernel {}: there are two", kernel.name));
        }
        if !kernel.body.is_empty() {
            kernels.push(kernel);
        }
        if kernels.len() > MAX_KERNELS {
            return Err(format!("more than {MAX_KERNELS} kernels"));
        }
    }
    Ok(kernels)
}

/// The kernel whose `__global__` is here; with an empty body if it is only declared.
fn kernel<'a>(tokens: &[Token<'a>], at: usize) -> Result<Kernel<'a>, String> {
    let unclear = || format!("byte {}: no kernel behind __global__", tokens[at].at);
    let open = parameters(tokens, at + 1).ok_or_else(unclear)?;
    let name = tokens[open - 1].text;
    let unclosed = || format!("kernel {name}: its brackets don't match");
    let close = closing(tokens, open).ok_or_else(unclosed)?;
    let params = params(&tokens[open + 1..close]).map_err(|why| format!("kernel {name}: {why}"))?;
    let begin = if at >= 2 && tokens[at - 2].is("extern") { at - 2 } else { at };
    let mangled = begin == at && !in_extern_block(&tokens[..at]);
    if mangled {
        return Err(format!(
            "kernel {name}: is not extern \"C\", so its name in the code is another one"
        ));
    }
    let end = |body: Range<usize>, end| Kernel {
        name,
        params: params.clone(),
        open,
        whole: begin..end,
        body,
    };
    match tokens.get(close + 1) {
        Some(token) if token.is(";") => Ok(end(close..close, close + 2)),
        Some(token) if token.is("{") => {
            let last = closing(tokens, close + 1).ok_or_else(unclosed)?;
            Ok(end(close + 2..last, last + 1))
        }
        _ => Err(unclear()),
    }
}

/// The `(` of the parameters: the first behind a word that is not an attribute with an argument.
fn parameters(tokens: &[Token<'_>], mut at: usize) -> Option<usize> {
    loop {
        let open = at + tokens.get(at..)?.iter().position(|token| token.is("("))?;
        let word = tokens[open.checked_sub(1)?];
        if !matches!(word.text, "__launch_bounds__" | "__attribute__") {
            return word.is_word().then_some(open);
        }
        at = closing(tokens, open)? + 1;
    }
}

/// The bracket that closes the one at `open`.
pub(crate) fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut wanted = Vec::new();
    for (at, token) in
        tokens.iter().enumerate().skip(open).filter(|(_, token)| token.kind == Kind::Sign)
    {
        match token.text {
            "(" => wanted.push(")"),
            "[" => wanted.push("]"),
            "{" => wanted.push("}"),
            ")" | "]" | "}" if wanted.pop() != Some(token.text) => return None,
            _ => {}
        }
        if wanted.is_empty() {
            return Some(at);
        }
    }
    None
}

fn params<'a>(tokens: &[Token<'a>]) -> Result<Vec<&'a str>, String> {
    let param = |tokens: &[Token<'a>]| {
        let name = tokens.last().filter(|token| token.is_word()).map_or("", |token| token.text);
        match tokens.iter().filter(|token| token.is("*")).count() {
            1 if !name.is_empty() => Ok(name),
            _ => {
                let text: Vec<_> = tokens.iter().map(|token| token.text).collect();
                Err(format!("parameter \"{}\" is no pointer with a name", text.join(" ")))
            }
        }
    };
    if tokens.is_empty() {
        return Ok(Vec::new());
    }
    tokens.split(|token| token.is(",")).map(param).collect()
}

/// Returns whether the last brace that is open was opened by `extern "C" {`.
fn in_extern_block(before: &[Token<'_>]) -> bool {
    let mut open = Vec::new();
    for (at, token) in before.iter().enumerate() {
        if token.is("{") {
            open.push(at >= 2 && before[at - 1].text == "\"C\"" && before[at - 2].is("extern"));
        } else if token.is("}") {
            open.pop();
        }
    }
    open.last() == Some(&true)
}

/// Places where statements of the body itself begin. Another statement may be put before each.
pub(crate) fn statements(tokens: &[Token<'_>], body: Range<usize>) -> Vec<usize> {
    let (mut begins, mut depth, mut fresh) = (Vec::new(), 0usize, true);
    for at in body {
        let token = &tokens[at];
        if fresh && depth == 0 && !token.is("else") {
            begins.push(at);
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        fresh = depth == 0 && (token.is(";") || token.is("}"));
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::super::token::tokens;
    use super::*;

    fn found(source: &str) -> Result<Vec<(&str, Vec<&str>)>, String> {
        let kernels = kernels(&tokens(source).unwrap())?;
        Ok(kernels.into_iter().map(|kernel| (kernel.name, kernel.params)).collect())
    }

    #[test]
    fn kernels_are_found_with_their_parameters() {
        let source = "#define X 1\nextern \"C\" __global__ void __launch_bounds__(64) a(float* __restrict__ p, const long *q) { p[0] = q[1]; }\n\
            extern \"C\" { __global__ void b(float *r); __global__ void b(float *r) { if (1) { r[0] = 2; } } }";
        assert_eq!(found(source), Ok(vec![("a", vec!["p", "q"]), ("b", vec!["r"])]));
    }

    #[test]
    fn unclear_kernels_are_refused_with_the_reason() {
        let says = |source| found(source).unwrap_err();
        let number = "extern \"C\" __global__ void a(float *p, int n) {}";
        assert_eq!(says(number), "kernel a: parameter \"int n\" is no pointer with a name");
        assert!(says("__global__ void a(float *p) { p[0] = 1; }").contains("is not extern \"C\""));
        assert_eq!(says("int x; __global__ void a"), "byte 7: no kernel behind __global__");
        let open = "extern \"C\" __global__ void a(int *p) { p[(0] = 1; }";
        assert_eq!(says(open), "kernel a: its brackets don't match");
        let twice = "extern \"C\" __global__ void a(int *p) { *p = 1; }";
        assert_eq!(says(&twice.repeat(2)), "kernel a: there are two");
    }
}
