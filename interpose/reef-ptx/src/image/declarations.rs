//! Variables that a PTX text declares.

use crate::text::cursor::{Cursor, Kind, Token};

/// Variable in global or constant memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Declaration<'a> {
    pub(super) name: &'a str,
    /// Another text defines it.
    pub(super) is_extern: bool,
    /// Bytes that it has at most, up to its alignment.
    pub(super) bytes: u64,
}

/// Variables of a text, which need not be a module that can be parsed: what isn't understood is
/// skipped. In functions, `.global` is a part of an instruction's name.
pub(super) fn declarations(text: &str) -> Vec<Declaration<'_>> {
    let (mut found, mut cursor) = (Vec::new(), Cursor::new(text, 0));
    let (mut is_extern, mut before) = (false, "");
    while let Some(token) = cursor.next() {
        match token.text {
            // `.param .u64 .ptr .global p` is a parameter that points to global memory.
            ".global" | ".const" if before != ".ptr" => {
                read(&mut cursor, |name, bytes| {
                    found.push(Declaration { name, is_extern, bytes });
                });
                is_extern = false;
            }
            ".extern" => is_extern = true,
            ";" | "{" | "}" => is_extern = false,
            _ => {}
        }
        before = token.text;
    }
    found
}

/// Reads `.align 4 .b8 name[8][16] = {…};` after the state space. Several names may follow each
/// other.
fn read<'a>(cursor: &mut Cursor<'a>, mut each: impl FnMut(&'a str, u64)) {
    let (mut element, mut lanes, mut variable) = (0_u64, 1_u64, Sides::default());
    let mut alignment = 1_u64;
    while let Some(token) = cursor.next() {
        match token.text {
            ";" => break,
            "(" => skip_past(cursor, ")"), // of an attribute
            "," => {
                each(variable.name, aligned(variable.bytes(element, lanes), alignment));
                variable = Sides::default();
            }
            "[" => variable.add_side(side(cursor)),
            "<" if !variable.is_named => variable.add_side(""), // many of them: `name<8>`
            "{" => variable.listed = variable.listed.saturating_add(values(cursor)),
            ".v2" => lanes = 2,
            ".v4" => lanes = 4,
            ".v8" => lanes = 8,
            ".align" => alignment = cursor.next().map_or(1, |token| number(token.text)),
            _ => {
                element = element.max(bytes_of(token.text).unwrap_or(0));
                variable.add_name(token);
            }
        }
    }
    each(variable.name, aligned(variable.bytes(element, lanes), alignment));
}

/// Returns the next multiple of an alignment, or the largest number.
fn aligned(bytes: u64, alignment: u64) -> u64 {
    bytes.checked_next_multiple_of(alignment.max(1)).unwrap_or(u64::MAX)
}

/// Name and sides of a variable.
#[derive(Debug, Clone, Copy)]
struct Sides<'a> {
    name: &'a str,
    is_named: bool,
    /// Elements.
    count: u64,
    /// It has as many elements as are listed.
    is_open: bool,
    listed: u64,
}

impl Default for Sides<'_> {
    fn default() -> Self {
        Self { name: "", is_named: false, count: 1, is_open: false, listed: 0 }
    }
}

impl<'a> Sides<'a> {
    /// The last word before brackets and the value is the name.
    fn add_name(&mut self, token: Token<'a>) {
        match token.kind {
            Kind::Word if !self.is_named => self.name = token.text,
            _ => self.is_named |= token.is("=") || token.is("]"),
        }
    }

    fn add_side(&mut self, side: &str) {
        self.is_named = true;
        match side {
            "]" => self.is_open = true,
            side => self.count = self.count.saturating_mul(number(side)),
        }
    }

    fn bytes(&self, element: u64, lanes: u64) -> u64 {
        let listed = if self.is_open { self.listed.max(1) } else { 1 };
        element.saturating_mul(lanes).saturating_mul(self.count).saturating_mul(listed)
    }
}

/// Reads up to the bracket that closes. A side of several tokens is an expression, such as `2*8`,
/// which is not evaluated here: it is none that can be read.
fn side<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    let first = cursor.next().map_or("", |token| token.text);
    if first == "]" || cursor.peek().is_some_and(|token| token.is("]")) { first } else { "" }
}

fn skip_past(cursor: &mut Cursor<'_>, sign: &str) {
    let _ = cursor.find(|token| token.is(sign));
}

/// Counts the values up to the bracket that closes: lists among them count once.
fn values(cursor: &mut Cursor<'_>) -> u64 {
    let (mut depth, mut count) = (1_u32, 1_u64);
    for token in cursor {
        match token.text {
            "{" => depth += 1,
            "}" if depth == 1 => break,
            "}" => depth -= 1,
            "," if depth == 1 => count += 1,
            _ => {}
        }
    }
    count
}

/// Bytes of a texture, a sampler or a surface, at most: ptxas 13.0 gives them 52, 20 and 28.
const OPAQUE: u64 = 64;

/// Bytes of an element, by its type: `.b8`, `.f64`, `.bf16`, `.f16x2`, `.texref`.
fn bytes_of(word: &str) -> Option<u64> {
    let word = word.strip_prefix('.')?;
    if matches!(word, "texref" | "samplerref" | "surfref") {
        return Some(OPAQUE);
    }
    let (kind, bits) = word.split_at(word.find(|c: char| c.is_ascii_digit())?);
    let is_type = matches!(kind, "b" | "u" | "s" | "f" | "bf" | "e" | "ue" | "tf");
    let end = bits.find(|c: char| !c.is_ascii_digit()).unwrap_or(bits.len());
    let packed = bits.rsplit_once('x').and_then(|(_, count)| count.parse().ok()).unwrap_or(1);
    is_type
        .then(|| bits[..end].parse().map_or(1, |bits: u64| bits.div_ceil(8).saturating_mul(packed)))
}

/// `12`, `0x1f`, `0b11`, `017`, each perhaps with `U`. A number that can't be read counts as the
/// largest one, so that the code is refused.
fn number(word: &str) -> u64 {
    let word = word.trim_end_matches(['U', 'u']);
    let parsed = match word.get(..2) {
        Some("0x" | "0X") => u64::from_str_radix(&word[2..], 16),
        Some("0b" | "0B") => u64::from_str_radix(&word[2..], 2),
        Some(octal) if octal.starts_with('0') => u64::from_str_radix(word, 8),
        _ => word.parse(),
    };
    parsed.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of all variables.
    fn bytes(text: &str) -> u64 {
        declarations(text).into_iter().fold(0, |sum, of| sum.saturating_add(of.bytes))
    }

    fn names(text: &str) -> Vec<&str> {
        declarations(text).into_iter().map(|of| of.name).collect()
    }

    #[test]
    fn variables_are_counted_by_type_and_sides() {
        assert_eq!(bytes(".visible .global .align 4 .b8 g[268435456];"), 256 << 20);
        let several = ".global .f32 a[8][ 16 ],\n b, c[0x10];\n.global .v4 .u32 d[2];";
        assert_eq!(bytes(several), 4 * (145 + 8));
        assert_eq!(names(several), ["a", "b", "c", "d"]);
        assert_eq!(bytes(".global .v2 .b64 a[2U]; .global .u16 b[] = {1, 2, {3}};"), 38);
        let attributes = ".global .b8 a[010]; .weak .global .attribute(.managed) .b16 b[0b11];";
        assert_eq!((bytes(attributes), names(attributes)), (14, vec!["a", "b"]));
        let values = ".global .align 8 .b8 a[4] = {255, 0, 0, 0};\n.global .u64 b = a;";
        assert_eq!((bytes(values), names(values)), (16, vec!["a", "b"]));
    }

    /// As ptxas 13.0 lays them out.
    #[test]
    fn rows_packed_types_textures_and_odd_texts_are_counted() {
        assert_eq!(
            bytes(".global .b8 g[][1024] = {{}, {}, {{}, {}}}; .global .b8 h[][4] = {};"),
            3076
        );
        assert_eq!(bytes(".global .f16x2 g[1024]; .global .b128 h;"), 4096 + 16);
        assert_eq!(
            bytes(".global .texref a[10], b; .global .surfref c; .global .samplerref d;"),
            832
        );
        let hidden = ".file 1 \"a\\\"\n.global .b8 g[4096];\n.file 2 \"b\"";
        assert_eq!((bytes(hidden), names(hidden)), (4096, vec!["g"]));
        let between = "/*/ \"*/ .global .b8 g[4096]; /* \" */";
        assert_eq!((bytes(between), names(between)), (4096, vec!["g"]));
    }

    /// As ptxas 13.0 lays them out.
    #[test]
    fn variables_without_spaces_are_counted() {
        for text in [
            ".global.b8 g[4096];",
            ".visible.global .b8 g[4096];",
            ".visible .global.align 4 .b8 g[4096];",
            ".global .v4.b32 g[256];",
            ".global.v4.f32 g[128],g2[128];",
            ".version 8.0 .target sm_90 .address_size 64 .global.b8 g[4096];",
            ".entry k() { .reg.b64 %rd<3>; .global.b8 g[4096]; mov.u64 %rd1, g; }",
        ] {
            assert_eq!(bytes(text), 4096, "{text}");
        }
        assert_eq!(bytes(".entry k(.param.u64.ptr.global.align 16 a) { ret; }"), 0);
    }

    #[test]
    fn variables_take_memory_up_to_their_alignment() {
        let text = ".global .align 65536 .b8 a[1], b[65537];\n.const .align 0x100 .u32 c;";
        assert_eq!(bytes(text), 3 * 65536 + 256);
        assert_eq!(names(text), ["a", "b", "c"]);
        assert_eq!(bytes(".global .align N .b8 a;"), u64::MAX);
    }

    #[test]
    fn text_without_variables_has_none() {
        let empty = "// .global .b8 a[9];\n/* .global .b8 b[9]; */ .file 1 \".global .b8 c[9];\"\n\
                     .shared .b8 d[9]; ld.global.u32 %r1, [%rd1+8]; st.global.v4.f32 [g], {1};";
        assert_eq!(declarations(empty), []);
        assert_eq!((declarations(""), declarations("a")), (vec![], vec![]));
        assert_eq!(bytes(".global"), 0);
    }

    #[test]
    fn parameter_that_points_to_a_space_is_no_variable() {
        let kernel = ".visible .entry k(.param .u64 .ptr .global .align 16 a,\n\
                      .param .u64 .ptr .const .align 4 b) { .reg .b32 %r<4>; ret; }";
        assert_eq!(declarations(kernel), []);
    }

    #[test]
    fn unreadable_sides_count_as_the_largest() {
        for side in ["99999999999999999999", "N", "0xffffffffffffffff", "2*1073741824", "1 << 30"] {
            assert_eq!(bytes(&format!(".global .b64 a[{side}];")), u64::MAX, "{side}");
        }
        assert_eq!(bytes(".global .v4 .b32 a<1000>;"), u64::MAX);
    }

    #[test]
    fn text_that_ends_anywhere_is_read_without_harm() {
        let text =
            ".extern .global .v4 .f32 é[0x1f][] = {1, {2}}, b; .const .attribute(.managed .b8 c";
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = declarations(&text[..end]);
        }
    }
}
