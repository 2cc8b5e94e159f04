//! Uses of a kernel's parameters, as far as its text alone tells.

use super::kernels::{Kernel, closing};
use super::token::{Kind, Token};

/// Signs that write what stands before them.
const ASSIGNS: [&str; 13] =
    ["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"];

/// Uses of the parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Uses {
    /// Writes of the body to a parameter: the token that names it, and the parameter's number.
    pub(crate) writes: Vec<(usize, usize)>,
    /// A parameter that is used otherwise than by an index, so that what is written isn't known.
    pub(crate) unclear: Option<String>,
}

impl Uses {
    /// Of a kernel whose parameters are used as `NAME[index]`.
    pub(crate) fn of(kernel: &Kernel<'_>, tokens: &[Token<'_>]) -> Self {
        let mut uses = Self::default();
        for at in kernel.body.clone() {
            let number = kernel.params.iter().position(|param| tokens[at].is(param));
            match number.map(|number| (number, access(tokens, at))) {
                Some((number, Some(Access::Write))) => uses.writes.push((at, number)),
                Some((number, None)) if uses.unclear.is_none() => {
                    uses.unclear =
                        Some(format!("{} is used without an index", kernel.params[number]));
                }
                _ => {}
            }
        }
        uses
    }

    /// Numbers of the parameters that are written, each once, if that is clear.
    pub(crate) fn written(&self) -> Option<Vec<usize>> {
        let mut written: Vec<_> = self.writes.iter().map(|(_, number)| *number).collect();
        written.sort_unstable();
        written.dedup();
        self.unclear.is_none().then_some(written)
    }
}

#[derive(PartialEq)]
enum Access {
    Read,
    Write,
}

/// Access to the element that is named here; `None` if it is not an element, or its address is
/// taken.
fn access(tokens: &[Token<'_>], at: usize) -> Option<Access> {
    let before = at.checked_sub(1).map(|before| tokens[before].text).unwrap_or_default();
    if !tokens.get(at + 1)?.is("[") || takes_address(tokens, at) || matches!(before, "." | "->") {
        return None;
    }
    let behind = tokens.get(closing(tokens, at + 1)? + 1)?;
    match behind.text {
        "." | "->" | "[" => None,
        sign if behind.kind == Kind::Sign && ASSIGNS.contains(&sign) => Some(Access::Write),
        _ if matches!(before, "++" | "--") => Some(Access::Write),
        _ => Some(Access::Read),
    }
}

/// Returns whether a `&` that isn't between two values stands before.
fn takes_address(tokens: &[Token<'_>], at: usize) -> bool {
    let value = |token: &Token<'_>| {
        matches!(token.kind, Kind::Word | Kind::Number) || token.is(")") || token.is("]")
    };
    // A cast's bracket looks like a value's: `(int)&x` and `(a)&x[0]` are both taken for addresses.
    let address = |at: usize| {
        tokens[at].is("&")
            && at.checked_sub(1).is_none_or(|at| !value(&tokens[at]) || tokens[at].is(")"))
    };
    at.checked_sub(1).is_some_and(address)
}

#[cfg(test)]
mod tests {
    use super::super::kernels::kernels;
    use super::super::token::tokens;
    use super::*;

    fn written(body: &str) -> Option<Vec<usize>> {
        let source =
            format!("extern \"C\" __global__ void k(float *p, int *q, float *r) {{ {body} }}");
        let tokens = tokens(&source).unwrap();
        Uses::of(&kernels(&tokens).unwrap()[0], &tokens).written()
    }

    #[test]
    fn assigned_parameters_are_written() {
        assert_eq!(written("r[(q[0])] = p[q[1]] == 2 ? p[3] : 0;"), Some(vec![2]));
        assert_eq!(written("if (p[0] > 1) r[0] += 1; ++q[0]; float t = p[1];"), Some(vec![1, 2]));
        assert_eq!(written("float local[2]; local[0] = p[0];"), Some(vec![]));
    }

    #[test]
    fn pointers_that_go_elsewhere_are_unclear() {
        for body in [
            "float *s = p;",
            "((float4*)(r + 4))[0] = x;",
            "*r = 1;",
            "atomicAdd(&r[0], p[0]);",
            "f((int)&p[0]);",
        ] {
            assert_eq!(written(body), None, "{body}");
        }
    }
}
