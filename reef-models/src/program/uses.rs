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
        let mut groups: Vec<Group> = Vec::new();
        for at in kernel.body.clone() {
            let number = kernel.params.iter().position(|param| tokens[at].is(param));
            match number.map(|number| (number, access(tokens, at))) {
                Some((number, Some(Access::Write))) => uses.writes.push((at, number)),
                Some((number, Some(Access::Read))) => {
                    if let Some(group) = groups.last_mut() {
                        group.read.push((at, number));
                    }
                }
                Some((number, None)) if uses.unclear.is_none() => {
                    uses.unclear =
                        Some(format!("{} is used without an index", kernel.params[number]));
                }
                _ => {}
            }
            if tokens[at].kind == Kind::Sign {
                match tokens[at].text {
                    "(" | "[" | "{" => groups.push(Group { open: at, read: Vec::new() }),
                    ")" | "]" | "}" => uses.close(tokens, &mut groups, at),
                    _ => {}
                }
            }
        }
        uses.writes.sort_unstable();
        if uses.unclear.is_none() {
            let why = |at: usize| other_name(tokens, at).map(|what| format!("{what} is used"));
            uses.unclear = kernel.body.clone().find_map(why);
        }
        uses
    }

    /// Ends the group whose bracket closes at `at`: elements in round brackets are written if the
    /// brackets are, as in `(p[0]) = 1` and `++(a ? p[0] : q[0])`.
    fn close(&mut self, tokens: &[Token<'_>], groups: &mut Vec<Group>, at: usize) {
        let Some(Group { open, mut read }) = groups.pop() else { return };
        if !tokens[at].is(")") {
            return; // an index is read
        }
        if is_written(tokens, open, at) {
            self.writes.append(&mut read);
        } else if let Some(around) = groups.last_mut() {
            if around.read.len() < read.len() {
                std::mem::swap(&mut around.read, &mut read);
            }
            around.read.append(&mut read);
        }
    }

    /// Numbers of the parameters that are written, each once, if that is clear.
    pub(crate) fn written(&self) -> Option<Vec<usize>> {
        let mut written: Vec<_> = self.writes.iter().map(|(_, number)| *number).collect();
        written.sort_unstable();
        written.dedup();
        self.unclear.is_none().then_some(written)
    }
}

/// Brackets that are open.
struct Group {
    open: usize,
    /// Elements in them that are read, as those of [`Uses::writes`].
    read: Vec<(usize, usize)>,
}

/// Returns whether what these round brackets have in them is written.
fn is_written(tokens: &[Token<'_>], open: usize, close: usize) -> bool {
    let before = open.checked_sub(1).map(|before| tokens[before].text).unwrap_or_default();
    let is_condition = matches!(before, "if" | "for" | "while");
    let behind = tokens.get(close + 1).filter(|behind| behind.kind == Kind::Sign);
    let is_assigned = behind.is_some_and(|behind| ASSIGNS.contains(&behind.text));
    matches!(before, "++" | "--") || is_assigned && !is_condition
}

/// Words before a `[` that is not an index of theirs.
const NO_VALUES: [&str; 12] = [
    "return", "else", "case", "and", "or", "not", "xor", "compl", "bitor", "not_eq", "throw", "new",
];

/// A way to write an element by another name, if one stands here: a reference, as in `float &r = x`
/// or `(float &)x`, or a function without a name, which may take one.
fn other_name(tokens: &[Token<'_>], at: usize) -> Option<&'static str> {
    let (token, next) = (&tokens[at], tokens.get(at + 1)?);
    let is_bound = || tokens.get(at + 2).is_some_and(|sign| sign.is("=") || sign.is("{"));
    let is_reference = || matches!(next.text, ")" | ">" | ",") || next.is_word() && is_bound();
    if (token.is("&") || token.is("&&")) && is_reference() {
        return Some("a reference");
    }
    let has_index = |before: &Token<'_>| match before.kind {
        Kind::Word => !NO_VALUES.contains(&before.text),
        _ => before.is(")") || before.is("]"),
    };
    let is_index = at.checked_sub(1).is_some_and(|before| has_index(&tokens[before]));
    (token.is("[") && !is_index).then_some("a function without a name")
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
    fn elements_in_brackets_are_written_if_these_are() {
        assert_eq!(written("(q[0]) = 1;"), Some(vec![1]));
        assert_eq!(written("++((p[0])); (q[1])--;"), Some(vec![0, 1]));
        assert_eq!(written("(p[0] ? q[p[1]] : r[2]) += 2;"), Some(vec![0, 1, 2]));
        assert_eq!(written("if (p[0]) ++i; s = (p[0]) * -(q[1]); s[(r[0])] = 1;"), Some(vec![]));
    }

    #[test]
    fn elements_with_other_names_are_unclear() {
        for body in [
            "float &a = r[0]; a = 1;",
            "const float &a{r[0]};",
            "++(float &)r[0];",
            "static_cast<float &>(r[0])++;",
            "[](float &a) { a = 1; }(r[0]);",
            "if (1) {} else [](float &a) { a = 1; }(r[0]);",
        ] {
            assert_eq!(written(body), None, "{body}");
        }
        let values = "int a = q[0] & 3; if (a && (a & b)) { s[a & b] = c & f(a); } s[0][1] = p[0];";
        assert_eq!(written(values), Some(vec![]));
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
