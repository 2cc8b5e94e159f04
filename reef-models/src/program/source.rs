//! A source file, read as far as it has to be understood.

use super::exchange::Exchanges;
use super::kernels::{self, Kernel};
use super::token::{self, Kind, Token};
use super::uses::Uses;
use super::{guard, proof};
use std::collections::BTreeMap;

/// Text of a source, and facts that follow from it for its kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    /// As the device's compiler takes it.
    pub(crate) compiled: String,
    /// Why its kernels can't be stopped, if they can't.
    pub(crate) unguarded: Option<String>,
    pub(crate) kernels: BTreeMap<String, KernelFacts>,
}

/// Facts about a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelFacts {
    pub(crate) params: usize,
    /// Numbers of the parameters that it writes, if that is clear.
    pub(crate) written: Option<Vec<usize>>,
    pub(crate) exchanges: Exchanges,
}

impl Source {
    /// # Errors
    ///
    /// The first fault, in words.
    pub(crate) fn read(name: &str, text: &str) -> Result<Self, String> {
        check_returns(text)?;
        let is_joined = text.lines().any(token::goes_on);
        let tokens = token::tokens(text)
            .map_err(|at| format!("byte {at}: what begins there doesn't end"))?;
        let kernels = kernels::kernels(&tokens)?;
        let unguarded = if is_joined {
            Some("a line goes on in the next one".into())
        } else {
            proof::unproved(&tokens, &kernels)
        };
        let new = match unguarded {
            None => guard::guarded(text, &tokens, &kernels),
            Some(_) => text.into(),
        };
        let facts = |kernel: &Kernel<'_>| {
            let facts = KernelFacts::of(&tokens, kernel);
            let written = facts.written.filter(|_| !is_joined); // a name may be in two lines
            (kernel.name.to_owned(), KernelFacts { written, ..facts })
        };
        Ok(Self {
            name: name.into(),
            compiled: compiled(name, &new),
            unguarded,
            kernels: kernels.iter().map(facts).collect(),
        })
    }
}

impl KernelFacts {
    fn of(tokens: &[Token<'_>], kernel: &Kernel<'_>) -> Self {
        Self {
            params: kernel.params.len(),
            written: Uses::of(kernel, tokens).written(),
            exchanges: Exchanges::of(tokens, kernel),
        }
    }
}

/// Refuses a return without a line feed, which ends a comment for some compilers.
fn check_returns(text: &str) -> Result<(), String> {
    let mut returns = text.match_indices('\r').map(|(at, _)| at);
    match returns.find(|at| !text[*at..].starts_with("\r\n")) {
        Some(at) => Err(format!("byte {at}: a return must be followed by a line feed")),
        None => Ok(()),
    }
}

/// With our header in the place of HIP's. Lines keep their numbers.
fn compiled(name: &str, text: &str) -> String {
    let mut made = format!("#include \"hip_flavour.h\"\n#line 1 \"{name}\"\n");
    let directives = token::tokens(text).unwrap_or_default();
    let mut at = 0;
    for token in directives.iter().filter(|token| is_hip_header(token)) {
        made += &text[at..token.at];
        at = token.at + token.text.trim_end().len();
    }
    made + &text[at..]
}

fn is_hip_header(token: &Token<'_>) -> bool {
    let included = token.text.trim_start_matches(['#', ' ']).strip_prefix("include");
    token.kind == Kind::Directive
        && included.is_some_and(|what| {
            what.trim() == "<hip/hip_runtime.h>" || what.trim() == "\"hip/hip_runtime.h\""
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_our_header_and_keeps_its_lines() {
        let text = "#include <hip/hip_runtime.h>\n\nextern \"C\" __global__ void k(float *p) { p[0] = 1; }\n";
        let source = Source::read("a.cu", text).unwrap();
        let begin = "#include \"hip_flavour.h\"\n#line 1 \"a.cu\"\n\n\nextern \"C\" __global__ void k(reef::Guard";
        assert!(source.compiled.starts_with(begin), "{}", source.compiled);
        assert_eq!((source.unguarded, source.kernels["k"].written.clone()), (None, Some(vec![0])));
    }

    #[test]
    fn kernels_that_are_not_understood_stay_as_they_are() {
        let text = "extern \"C\" __global__ void k(float *p) { float *q = p; q[gridDim.x] = 1; }\n";
        let source = Source::read("a.cu", text).unwrap();
        assert!(source.compiled.ends_with(text));
        assert_eq!(source.unguarded.unwrap(), "kernel k: p is used without an index");
    }

    /// The compiler joins lines before it reads words and comments.
    #[test]
    fn kernels_of_joined_lines_stay_as_they_are() {
        let kernel = |before: &str| {
            let text =
                format!("extern \"C\" __global__ void k(float *p) {{ {before} p[0] = 1; }}\n");
            Source::read("a.cu", &text)
        };
        for joined in ["// a \\\n p[1] = 2;\n", "#pragma unroll \\ \n;\n", "float pp\\\n = 1;"] {
            let source = kernel(joined).unwrap();
            let why = source.unguarded.as_deref();
            assert_eq!(why, Some("a line goes on in the next one"), "{joined:?}");
            assert_eq!(source.kernels["k"].written, None, "{joined:?}");
        }
        assert_eq!(kernel("// a\r\n").unwrap().kernels["k"].written, Some(vec![0]));
        let said = kernel("// a\rp[1] = 2;\n").unwrap_err();
        assert!(said.ends_with("a return must be followed by a line feed"), "{said}");
    }

    /// Any text is a source or an error.
    #[test]
    fn broken_sources_are_read_or_refused() {
        let good = "#define F(a) a*2\nextern \"C\" __global__ void k(float *p, float *q) {\n\
            for (int i = 0; i < 4; ++i) { __syncthreads(); s[0] = p[i]; }\n\
            t = __hip_ds_bpermute(((threadIdx.x + (lane & (~63))) << 2), s[0]); q[blockIdx.x] = F(t); }\n";
        assert!(Source::read("k.cu", good).is_ok());
        let signs = [
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "\"",
            "/*",
            ";",
            ",",
            "#",
            "\\",
            "é",
            "__hip_ds_bpermute",
            "k",
        ];
        for (at, _) in good.char_indices() {
            let _ = Source::read("k.cu", &good[..at]);
            let _ = Source::read("k.cu", &good[at..]);
            for sign in signs {
                let _ = Source::read("k.cu", &format!("{}{sign}{}", &good[..at], &good[at..]));
                let _ = Source::read("k.cu", &format!("{}{sign}{}", &good[..at], &good[at + 1..]));
            }
        }
    }
}
