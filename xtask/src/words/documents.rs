//! Rule 1, for documents: how long sentences are.

use super::rules::Hit;

/// Words that a sentence may have. The aim is 15 to 18, and 30 at most.
const MAX_WORDS: usize = 40;

/// Words with a point that does not end a sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "vs.", "cf.", "no.", "approx."];

/// Sentences of a Markdown text that are too long.
pub(super) fn hits(text: &str) -> Vec<Hit> {
    let long = sentences(text).into_iter().filter(|sentence| sentence.words.len() > MAX_WORDS);
    long.map(|Sentence { line, words }| {
        let begin = words[..6].join(" ");
        Hit::new(line, 1, format!("{} words: {begin} …", words.len()))
    })
    .collect()
}

#[derive(Debug, Default)]
pub(super) struct Sentence {
    /// On which it begins.
    pub(super) line: usize,
    pub(super) words: Vec<String>,
}

/// Sentences outside of code, tables and comments. A heading and an item of a list are sentences of
/// their own.
pub(super) fn sentences(text: &str) -> Vec<Sentence> {
    let mut reader = Reader::default();
    let mut fence: Option<&str> = None;
    let mut is_after_blank = true;
    for (number, line) in text.lines().enumerate() {
        let inner = line.trim_start_matches([' ', '>']);
        let mark = ["```", "~~~"].into_iter().find(|mark| inner.starts_with(mark));
        if mark.is_some() && (fence.is_none() || fence == mark) {
            fence = if fence.is_none() { mark } else { None };
            reader.end();
        } else if fence.is_some() {
        } else if inner.is_empty() || inner.starts_with(['|', '#', '<']) {
            reader.end();
            if let Some(heading) = inner.strip_prefix('#') {
                reader.add(heading, number + 1);
                reader.end();
            }
        } else if line.starts_with("    ") && is_after_blank && !reader.is_in_list {
            reader.end(); // a block of code
        } else {
            let is_item = item(inner).is_some();
            if is_item {
                reader.end();
            }
            reader.is_in_list = is_item
                || reader.is_in_list && line.starts_with(' ')
                || reader.is_in_list && !is_after_blank;
            reader.add(item(inner).unwrap_or(inner), number + 1);
        }
        is_after_blank = inner.is_empty() || is_after_blank && line.starts_with("    ");
    }
    reader.end();
    reader.sentences
}

/// Text of an item of a list.
fn item(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() < line.len() {
        return digits.strip_prefix(". ").or_else(|| digits.strip_prefix(") "));
    }
    ["- ", "* ", "+ "].into_iter().find_map(|mark| line.strip_prefix(mark))
}

#[derive(Default)]
struct Reader {
    sentences: Vec<Sentence>,
    now: Sentence,
    is_in_list: bool,
    /// Inside of code that goes over a line's end.
    is_code: bool,
    /// Inside of a link's address.
    is_address: bool,
}

impl Reader {
    fn add(&mut self, text: &str, line: usize) {
        for word in text.split_whitespace() {
            let plain = self.plain(word);
            let has_word = plain.chars().any(char::is_alphanumeric);
            if has_word {
                if self.now.words.is_empty() {
                    self.now.line = line;
                }
                self.now.words.push(plain.clone());
            }
            let end = plain.trim_end_matches(['*', '_', ')', '"', '”', '\'']);
            let is_short = ABBREVIATIONS.contains(&end.to_lowercase().trim_start_matches('('));
            if end.ends_with(['.', '!', '?']) && !is_short && !self.is_code {
                self.end_sentence();
            }
        }
    }

    /// A word without its address, and with `x` for each piece of code in it.
    fn plain(&mut self, word: &str) -> String {
        let mut plain = String::new();
        let mut before = ' ';
        for c in word.chars() {
            match c {
                '`' => {
                    self.is_code = !self.is_code;
                    plain.push_str(if self.is_code { "x" } else { "" });
                }
                _ if self.is_code => {}
                '(' if before == ']' => self.is_address = true,
                ')' if self.is_address => self.is_address = false,
                _ if self.is_address => {}
                '[' | ']' => {}
                c => plain.push(c),
            }
            before = c;
        }
        plain
    }

    fn end_sentence(&mut self) {
        let sentence = std::mem::take(&mut self.now);
        if !sentence.words.is_empty() {
            self.sentences.push(sentence);
        }
    }

    /// Ends the paragraph.
    fn end(&mut self) {
        self.end_sentence();
        (self.is_code, self.is_address) = (false, false);
    }
}
