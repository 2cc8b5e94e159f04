//! Rules for names and forms of code: 7, 8, 9, and 14 where a name has a struck word.

use super::lexer::{Kind, Token};
use super::prose::SYNONYMS;
use super::rules::Hit;

/// Participles, pronouns and adverbs that are not types.
const NOT_TYPES: &[&str] = &[
    "Above", "After", "Against", "Aside", "Asked", "Away", "Beside", "Between", "Both", "Either",
    "Ended", "Entered", "Given", "Heard", "Kept", "Known", "Left", "Listed", "Loaded", "Located",
    "Made", "Met", "Mine", "Named", "News", "Nothing", "Now", "Once", "Others", "Over", "Own",
    "Patience", "Pot", "Seen", "Shown", "Soon", "Taken", "Told", "Wanted", "What", "Which", "Who",
    "Wish",
];

/// Adverbs, pronouns and participles that are not functions.
const NOT_FUNCTIONS: &[&str] = &[
    "after", "again", "alone", "around", "aside", "asked", "away", "before", "beside", "both",
    "given", "how", "kept", "known", "later", "least", "left", "made", "most", "near", "once",
    "quietly", "said", "seen", "shown", "told", "together", "twice", "wanted", "what", "who",
];

const MAX_TEST_NAME: usize = 60;

/// Hits in the code of a file.
pub(super) fn hits<'a>(tokens: &[Token<'a>]) -> Vec<Hit> {
    // The signs inside of a literal are not code.
    let blank = |token: &Token<'a>| match token.kind {
        Kind::Text => Token { text: "", ..token.clone() },
        _ => token.clone(),
    };
    let code: Vec<Token<'a>> =
        tokens.iter().filter(|token| !token.kind.is_comment()).map(blank).collect();
    let mut hits = Vec::new();
    let mut is_test = false;
    for at in 0..code.len() {
        let after = &code[at + 1..];
        match code[at].text {
            "#" if is_test_attribute(after) => is_test = true,
            "}" | ";" => is_test = false,
            "struct" | "enum" | "union" | "trait" | "type" => type_name(after, &mut hits),
            "const" | "static" => constant(after, &mut hits),
            "fn" => {
                function(after, is_test, &mut hits);
                is_test = false;
            }
            "match" => bool_match(after, &mut hits),
            _ => {}
        }
    }
    hits
}

/// `[test]`, `[tokio::test(..)]` and the like.
fn is_test_attribute(after: &[Token<'_>]) -> bool {
    let end = after.iter().position(|token| matches!(token.text, "]" | "(")).unwrap_or(0);
    end > 1 && after[0].text == "[" && after[end - 1].text == "test"
}

fn name<'a>(after: &[Token<'a>]) -> Option<&'a str> {
    after.first().filter(|token| token.kind == Kind::Word).map(|token| token.text)
}

fn type_name(after: &[Token<'_>], hits: &mut Vec<Hit>) {
    let Some(name) = name(after) else { return };
    if NOT_TYPES.contains(&name) {
        hits.push(Hit::new(after[0].line, 7, format!("type {name}")));
    }
    synonym(name, after[0].line, hits);
}

fn constant(after: &[Token<'_>], hits: &mut Vec<Hit>) {
    let after = if name(after) == Some("mut") { &after[1..] } else { after };
    let Some(name) = name(after) else { return };
    let mut parts = name.split('_');
    let is_first = parts.next().is_some_and(|first| matches!(first, "MOST" | "LEAST" | "LONGEST"));
    let is_struck = |part| matches!(part, "PATIENCE" | "NAP" | "NAPS" | "LOOK" | "LOOKS");
    if is_first || name.split('_').any(is_struck) {
        hits.push(Hit::new(after[0].line, 8, name));
    }
}

fn function(after: &[Token<'_>], is_test: bool, hits: &mut Vec<Hit>) {
    let Some(name) = name(after) else { return }; // the type `fn(..)`
    let line = after[0].line;
    if NOT_FUNCTIONS.contains(&name) {
        hits.push(Hit::new(line, 7, format!("function {name}")));
    }
    if let Some(fault) = test_fault(name).filter(|_| is_test) {
        hits.push(Hit::new(line, 9, format!("{name} {fault}")));
    }
    synonym(name, line, hits);
    hits.extend(
        tuple_parameters(after)
            .into_iter()
            .map(|line| Hit::new(line, 7, format!("tuple pattern as a parameter of {name}"))),
    );
}

fn test_fault(name: &str) -> Option<String> {
    let begins = ["what_", "who_", "whoever_"].into_iter().find(|begin| name.starts_with(begin));
    let ends =
        ["_is_said", "_is_named", "_in_one_line"].into_iter().find(|end| name.ends_with(end));
    match (begins, ends) {
        _ if name.len() > MAX_TEST_NAME => Some(format!("has {} characters", name.len())),
        (Some(begin), _) => Some(format!("begins with {begin}")),
        (None, Some(end)) => Some(format!("ends in {end}")),
        (None, None) => None,
    }
}

fn synonym(name: &str, line: usize, hits: &mut Vec<Hit>) {
    let snake = snake(name);
    let part = |(word, _): &&(&str, &str)| snake.split('_').any(|part| part == *word);
    if let Some((word, better)) = SYNONYMS.iter().find(part) {
        hits.push(Hit::new(line, 14, format!("{name}: {word}: say {better}")));
    }
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// Lines of parameters such as `(peer, node): (&Peer, &Node)` of the function whose name comes
/// first.
fn tuple_parameters(after: &[Token<'_>]) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut depth = 0;
    for at in parameters(after)..after.len() {
        depth += change(after[at].text);
        if depth == 1 && matches!(after[at].text, "(" | ",") && is_tuple(&after[at + 1..]) {
            lines.push(after[at + 1].line);
        }
        if depth == 0 {
            break;
        }
    }
    lines
}

/// Whether a pattern of two and more, and a colon, come first.
fn is_tuple(after: &[Token<'_>]) -> bool {
    let end = after.iter().position(|token| token.text == ")").unwrap_or(0);
    let is_pair = after[..end].iter().any(|token| token.text == ",");
    let colon = after.get(end + 1).is_some_and(|token| token.text == ":");
    is_pair && after[0].text == "(" && colon
}

/// Index of the bracket that opens the parameters, past `<..>`.
fn parameters(after: &[Token<'_>]) -> usize {
    let mut angles = 0;
    for (at, token) in after.iter().enumerate() {
        match token.text {
            "<" => angles += 1,
            ">" => angles -= 1,
            "(" if angles == 0 => return at,
            _ => {}
        }
    }
    after.len()
}

fn change(text: &str) -> i32 {
    match text {
        "(" | "[" | "{" => 1,
        ")" | "]" | "}" => -1,
        _ => 0,
    }
}

/// A `match` of which both `true =>` and `false =>` are arms.
fn bool_match(after: &[Token<'_>], hits: &mut Vec<Hit>) {
    let mut depth = 0;
    let mut arms = [false; 2];
    let mut before = "";
    for (at, token) in after.iter().enumerate() {
        depth += change(token.text);
        if depth <= 0 && at > 0 && matches!(token.text, "}" | ";") {
            break;
        }
        let is_arm = depth == 1 && matches!(before, "{" | "," | "}");
        if is_arm && after.get(at + 1).is_some_and(|next| next.text == "=>") {
            arms[0] |= token.text == "true";
            arms[1] |= token.text == "false";
        }
        before = token.text;
    }
    if arms == [true; 2] {
        hits.push(Hit::new(after[0].line, 7, "match with true and false"));
    }
}
