//! Code as text (PTX): variables outside of functions that are `.global`.

use super::size::Size;

/// Returns the size of a text's variables. The size of its machine code is unknown.
pub(super) fn size(text: &[u8]) -> Size {
    let (mut data, mut words) = (0_u64, Words { text });
    while let Some(word) = words.next() {
        if word == b".global" {
            data = data.saturating_add(declaration(&mut words));
        }
    }
    Size { data, ..Size::default() }
}

/// Returns the bytes of a variable's elements, by its type.
fn element(word: &[u8]) -> Option<u64> {
    let bits = word.strip_prefix(b".")?;
    let digits = bits.iter().position(u8::is_ascii_digit)?;
    let (kind, bits) = bits.split_at_checked(digits)?;
    let is_type = matches!(kind, b"b" | b"u" | b"s" | b"f" | b"bf" | b"e" | b"ue" | b"tf");
    let bits: String = bits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .map(|byte| char::from(*byte))
        .collect();
    is_type.then(|| bits.parse::<u64>().map_or(1, |bits| bits.div_ceil(8)))
}

/// Parses a declaration after `.global`, up to its end: `.align 4 .b8 name[8][16] = {…};`, of which
/// several may follow each other. In functions `.global` is part of an instruction's name, without
/// a blank before it.
fn declaration(words: &mut Words<'_>) -> u64 {
    let (mut each, mut lanes, mut count, mut sum) = (0_u64, 1_u64, 1_u64, 0_u64);
    let (mut listed, mut depth, mut is_open) = (0_u64, 0_u32, false);
    while let Some(word) = words.next() {
        match word {
            b";" => break,
            b"{" => depth += 1,
            b"}" => depth = depth.saturating_sub(1),
            b"," if depth == 0 => {
                sum = sum.saturating_add(total(each, lanes, count, listed, is_open));
                (count, listed, is_open) = (1, 0, false);
            }
            b"[" => {
                let inner = words.next().unwrap_or_default();
                match number(inner) {
                    Some(sides) => count = count.saturating_mul(sides),
                    None => is_open = true, // as many as are listed
                }
            }
            b".v2" => lanes = 2,
            b".v4" => lanes = 4,
            b".v8" => lanes = 8,
            _ if depth > 0 => listed = listed.saturating_add(u64::from(word != b",")),
            _ => each = each.max(element(word).unwrap_or(0)),
        }
    }
    sum.saturating_add(total(each, lanes, count, listed, is_open))
}

fn total(each: u64, lanes: u64, count: u64, listed: u64, is_open: bool) -> u64 {
    let count = if is_open { count.saturating_mul(listed.max(1)) } else { count };
    each.saturating_mul(lanes).saturating_mul(count)
}

/// `12`, `0x1f`, `0b11`, `017`, each perhaps with `U`. A number that can't be read counts as the
/// largest one, so that the code is refused.
fn number(word: &[u8]) -> Option<u64> {
    if word == b"]" {
        return None;
    }
    let text = std::str::from_utf8(word).unwrap_or("?").trim_end_matches(['U', 'u']);
    let parsed = match text.get(..2) {
        Some("0x" | "0X") => u64::from_str_radix(text.get(2..).unwrap_or_default(), 16),
        Some("0b" | "0B") => u64::from_str_radix(text.get(2..).unwrap_or_default(), 2),
        Some(octal) if octal.starts_with('0') => u64::from_str_radix(text, 8),
        _ => text.parse(),
    };
    Some(parsed.unwrap_or(u64::MAX))
}

/// Returns the words of a text: names, numbers and marks, without comments and quoted strings.
struct Words<'a> {
    text: &'a [u8],
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            self.text = self.text.trim_ascii_start();
            let end = |mark: &[u8]| {
                let found = self.text.windows(mark.len()).skip(2).position(|part| part == mark);
                found.map_or(self.text.len(), |at| at + 2 + mark.len())
            };
            let skipped = match self.text {
                [b'/', b'/', ..] => end(b"\n"),
                [b'/', b'*', ..] => end(b"*/"),
                [b'"', rest @ ..] => {
                    rest.iter().position(|byte| *byte == b'"').map_or(self.text.len(), |at| at + 2)
                }
                _ => break,
            };
            self.text = self.text.get(skipped..).unwrap_or_default();
        }
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._$%".contains(byte);
        let length = self.text.iter().take_while(|byte| is_name(byte)).count();
        let (word, rest) = self.text.split_at_checked(length.max(1))?;
        self.text = rest;
        Some(word)
    }
}
