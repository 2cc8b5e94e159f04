//! Statements of a function's body.

use super::cursor::{Cursor, Kind, Token};
use crate::error::Error;

/// Part of the text, with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

/// Predicate of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guard<'a> {
    pub(crate) register: &'a str,
    pub(crate) is_negated: bool,
}

/// `[@[!]p] opcode operands ;`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instruction<'a> {
    pub(crate) guard: Option<Guard<'a>>,
    /// With all suffixes.
    pub(crate) opcode: &'a str,
    /// Split at commas outside of brackets.
    pub(crate) operands: Vec<Piece<'a>>,
}

impl<'a> Instruction<'a> {
    /// Opcode without suffixes.
    pub(crate) fn base(&self) -> &'a str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    pub(crate) fn suffixes(&self) -> impl Iterator<Item = &'a str> {
        self.opcode.split('.').skip(1)
    }

    pub(crate) fn has(&self, suffix: &str) -> bool {
        self.suffixes().any(|part| part == suffix)
    }

    /// Operand by its position; empty if there are fewer.
    pub(crate) fn operand(&self, at: usize) -> &'a str {
        self.operands.get(at).map_or("", |operand| operand.text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatementKind<'a> {
    Label(&'a str),
    Open,
    Close,
    /// Name with its point, and the rest up to its end.
    Directive(&'a str, &'a str),
    Instruction(Instruction<'a>),
}

/// Statement of a body. Its end is behind its semicolon, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement<'a> {
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// Number of the scope in which it stands; 0 is the body.
    pub(crate) scope: u32,
    pub(crate) kind: StatementKind<'a>,
}

/// Statements of a body, and for each scope the one around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Body<'a> {
    pub(crate) statements: Vec<Statement<'a>>,
    pub(crate) parents: Vec<u32>,
    /// Place of the bracket that ends it.
    pub(crate) end: usize,
}

/// Reads a body, whose opening bracket has been taken, past its end.
///
/// # Errors
///
/// A statement has a form that is not known, or the body does not end.
pub(crate) fn read_body<'a>(text: &'a str, cursor: &mut Cursor<'a>) -> Result<Body<'a>, Error> {
    let mut body = Body { parents: vec![0], ..Body::default() };
    let mut scope = 0;
    let begin = cursor.at();
    loop {
        let token = cursor.next().ok_or_else(|| cursor.error(begin, "a body does not end"))?;
        let kind = match token.text {
            "}" if body.parents.len() == 1 || scope == 0 => {
                body.end = token.at;
                return Ok(body);
            }
            "}" => {
                let closed = scope;
                scope = body.parents[scope as usize];
                let statement = Statement {
                    at: token.at,
                    end: token.end(),
                    scope: closed,
                    kind: StatementKind::Close,
                };
                body.statements.push(statement);
                continue;
            }
            "{" => {
                body.parents.push(scope);
                scope = u32::try_from(body.parents.len() - 1)
                    .map_err(|_| cursor.error(token.at, "a body has too many scopes"))?;
                StatementKind::Open
            }
            "@" => guarded(text, cursor, token)?,
            _ if token.kind == Kind::Word => worded(text, cursor, token)?,
            ";" => continue,
            _ => return Err(cursor.error(token.at, "a statement must begin with a word")),
        };
        body.statements.push(Statement { at: token.at, end: cursor.at(), scope, kind });
    }
}

fn guarded<'a>(
    text: &'a str,
    cursor: &mut Cursor<'a>,
    at: Token<'a>,
) -> Result<StatementKind<'a>, Error> {
    let wrong =
        |cursor: &Cursor<'a>| cursor.error(at.at, "a predicate must be followed by its use");
    let is_negated = cursor.peek().is_some_and(|token| token.is("!"));
    if is_negated {
        cursor.next();
    }
    let mut word = || cursor.next().filter(|token| token.kind == Kind::Word);
    let (register, opcode) = (word(), word());
    let (Some(register), Some(opcode)) = (register, opcode) else { return Err(wrong(cursor)) };
    let guard = Guard { register: register.text, is_negated };
    instruction(text, cursor, Some(guard), opcode)
}

/// Statement that begins with a word: label, directive or instruction.
fn worded<'a>(
    text: &'a str,
    cursor: &mut Cursor<'a>,
    word: Token<'a>,
) -> Result<StatementKind<'a>, Error> {
    if cursor.peek().is_some_and(|token| token.is(":")) {
        cursor.next();
        return Ok(StatementKind::Label(word.text));
    }
    if !word.text.starts_with('.') {
        return instruction(text, cursor, None, word);
    }
    match word.text {
        ".loc" => skip_loc(cursor, word)?,
        ".file" => skip_file(cursor, word)?,
        _ => cursor.skip_past(";", word.at)?,
    }
    Ok(StatementKind::Directive(word.text, &text[word.end()..cursor.at()]))
}

/// Skips the operands of `.loc`: `1 22 3`, and perhaps `, function_name name + 8, inlined_at 1 5
/// 2`. They end before the next statement, which may stand on the same line.
fn skip_loc(cursor: &mut Cursor<'_>, loc: Token<'_>) -> Result<(), Error> {
    let mut is_known = skip_place(cursor);
    while is_known && cursor.peek().is_some_and(|token| token.is(",")) {
        cursor.next();
        is_known = match cursor.next().map(|token| token.text) {
            Some("function_name") => skip_name(cursor),
            Some("inlined_at") => skip_place(cursor),
            _ => false,
        };
    }
    if is_known { Ok(()) } else { Err(cursor.error(loc.at, "operands of .loc are not known")) }
}

/// Skips a file, a line and a column. Returns whether all are there.
fn skip_place(cursor: &mut Cursor<'_>) -> bool {
    let is_number = |token: Token<'_>| token.text.bytes().all(|byte| byte.is_ascii_digit());
    (0..3).all(|_| cursor.next().is_some_and(is_number))
}

/// Skips a name, and perhaps an offset. Returns whether they are there.
fn skip_name(cursor: &mut Cursor<'_>) -> bool {
    let has_name = cursor.next().is_some_and(|token| token.kind == Kind::Word);
    if cursor.peek().is_none_or(|token| !token.is("+")) {
        return has_name;
    }
    cursor.next();
    has_name && cursor.next().is_some_and(|token| token.kind == Kind::Word)
}

/// Skips the operands of `.file`: `1 "name"`, and perhaps `, time, size`.
pub(super) fn skip_file(cursor: &mut Cursor<'_>, file: Token<'_>) -> Result<(), Error> {
    let has_number = cursor.next().is_some_and(|token| token.kind == Kind::Word);
    if !has_number || cursor.next().is_none_or(|token| token.kind != Kind::Text) {
        return Err(cursor.error(file.at, "a file of sources must have a number and a name"));
    }
    if cursor.peek().is_some_and(|token| token.is(",")) {
        cursor.next();
        return cursor.skip_words(file.at);
    }
    Ok(())
}

fn instruction<'a>(
    text: &'a str,
    cursor: &mut Cursor<'a>,
    guard: Option<Guard<'a>>,
    opcode: Token<'a>,
) -> Result<StatementKind<'a>, Error> {
    if cursor.peek().is_some_and(|token| token.text.starts_with('.')) {
        let what = "a suffix of an instruction must follow without a space";
        return Err(cursor.error(opcode.at, what));
    }
    let mut inner = cursor.clone();
    cursor.skip_past(";", opcode.at)?;
    let end = cursor.at() - 1;
    let mut operands = Vec::new();
    while inner.at() < end {
        let begin = inner.at();
        // The semicolon ends the last one.
        let mut depth = 0_usize;
        let mut stop = end;
        for token in inner.by_ref().take_while(|token| token.at < end) {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "," if depth == 0 => {
                    stop = token.at;
                    break;
                }
                _ => {}
            }
        }
        let raw = &text[begin..stop];
        let trimmed = raw.trim();
        if !trimmed.is_empty() {
            let at = begin + (raw.len() - raw.trim_start().len());
            operands.push(Piece { text: trimmed, at });
        }
        if stop == end {
            break;
        }
    }
    Ok(StatementKind::Instruction(Instruction { guard, opcode: opcode.text, operands }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Body<'_> {
        read_body(text, &mut Cursor::new(text, 0)).unwrap()
    }

    #[test]
    fn statements_have_their_parts() {
        let text = "
            .reg .b32 %r<3>;
            .loc 1 22 3, function_name $L__info, inlined_at 1 5 2
            @!%p1 bra $L__BB0_2; $L__BB0_1:
            { .reg .pred p; ld.global.v2.b32 {%r1, %r2}, [%rd1+8]; }
            call.uni (retval0), f, (param0, param1); ret;
        }";
        let body = read(text);
        let kinds: Vec<_> = body.statements.iter().map(|statement| &statement.kind).collect();
        let branch = Guard { register: "%p1", is_negated: true };
        assert!(matches!(kinds[0], StatementKind::Directive(".reg", " .b32 %r<3>;")));
        assert!(matches!(kinds[1], StatementKind::Directive(".loc", _)));
        let StatementKind::Instruction(bra) = kinds[2] else { panic!("{:?}", kinds[2]) };
        assert_eq!((bra.guard, bra.operand(0)), (Some(branch), "$L__BB0_2"));
        assert!(matches!(kinds[3], StatementKind::Label("$L__BB0_1")));
        let StatementKind::Instruction(load) = kinds[6] else { panic!("{:?}", kinds[6]) };
        assert_eq!((load.base(), load.operand(0)), ("ld", "{%r1, %r2}"));
        assert_eq!(&text[load.operands[1].at..][..8], "[%rd1+8]");
        assert!(load.has("global") && !load.has("shared"));
        let StatementKind::Instruction(call) = kinds[8] else { panic!("{:?}", kinds[8]) };
        assert_eq!(call.operand(2), "(param0, param1)");
        assert_eq!(body.parents, [0, 0]);
    }

    /// As ptxas 13.0 reads them: it would run what a reader of lines leaves out.
    #[test]
    fn instruction_behind_a_line_of_a_source_is_read() {
        for loc in ["1 2 3", "1 2 3, function_name .debug_str+8, inlined_at 1 5 2", "1 2\n3 // x\n"]
        {
            let text =
                format!(".file 1 \"a;\n\", 7, 9 .loc {loc} st.global.u32 [%rd1], %r1; ret; }}");
            let body = read(&text);
            let kinds: Vec<_> = body.statements.iter().map(|statement| &statement.kind).collect();
            assert_eq!(kinds.len(), 4, "{text}");
            assert!(matches!(kinds[1], StatementKind::Directive(".loc", _)), "{text}");
            let StatementKind::Instruction(store) = kinds[2] else { panic!("{:?}", kinds[2]) };
            assert_eq!((store.base(), store.operand(1)), ("st", "%r1"));
        }
        for wrong in [".loc 1 2 ret; }", ".loc 1 2 3, ret; }", ".file \"a\" ret; }"] {
            assert!(read_body(wrong, &mut Cursor::new(wrong, 0)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn suffix_behind_a_space_is_refused() {
        for text in ["ld .volatile.global.u32 %r1, [%rd1]; }", "@%p1 bar/* */.sync 0; }"] {
            let error = read_body(text, &mut Cursor::new(text, 0)).unwrap_err().to_string();
            assert!(error.ends_with("must follow without a space"), "{error}");
        }
    }

    #[test]
    fn body_without_an_end_is_an_error_with_its_line() {
        let text = "\n\n add.u32 %r1, %r2";
        let error = read_body(text, &mut Cursor::new(text, 0)).unwrap_err();
        assert_eq!(error.to_string(), "line 3 of this PTX: a statement does not end");
    }
}
