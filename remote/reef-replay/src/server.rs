//! Templates at the server, and the operations of a record.

use crate::advance::{CHANGED, Reader, SWITCH};
use crate::error::Malformed;
use crate::numbers::{MAX_TEMPLATES, MAX_TOTAL_LEN};
use crate::segment::Segment;

/// Templates of a session.
#[derive(Debug, Default)]
pub struct Templates {
    by_number: Vec<Option<Segment>>,
    bytes: usize,
}

impl Templates {
    /// Keeps a template, in place of the earlier one of its number.
    ///
    /// `is_known` says which kinds of operations it may have.
    ///
    /// # Errors
    ///
    /// The number, the kinds or the lengths cannot be. Nothing has changed then.
    pub fn define(
        &mut self,
        number: u16,
        definition: &[u8],
        is_known: impl Fn(u16) -> bool,
    ) -> Result<(), Malformed> {
        let at = usize::from(number);
        if at >= MAX_TEMPLATES {
            let text = format!("template: its number must be below {MAX_TEMPLATES}, got {number}");
            return Err(Malformed(text));
        }
        let segment = Segment::read(definition)?;
        if let Some(kind) = (0..segment.len()).map(|at| segment.get(at).0).find(|k| !is_known(*k)) {
            return Err(Malformed(format!("template: cannot have operation {kind}")));
        }
        self.by_number.resize_with(MAX_TEMPLATES, || None);
        let was = self.by_number[at].as_ref().map_or(0, Segment::bytes);
        let bytes = self.bytes - was + segment.bytes();
        if bytes > MAX_TOTAL_LEN {
            let text = format!("templates: must have at most {MAX_TOTAL_LEN} bytes, got {bytes}");
            return Err(Malformed(text));
        }
        (self.by_number[at], self.bytes) = (Some(segment), bytes);
        Ok(())
    }

    /// Returns each template with its number, as a definition of what it holds now: words that
    /// records have changed are as changed. Defined elsewhere, they take the records that follow.
    pub fn definitions(&self) -> impl Iterator<Item = (u16, Vec<u8>)> + '_ {
        let all = self.by_number.iter().enumerate();
        all.filter_map(|(number, known)| Some((number as u16, known.as_ref()?.write())))
    }

    /// Calls with each operation of a record, in order: its kind, its body up to the payload, and
    /// the payload.
    ///
    /// # Errors
    ///
    /// The call's; a record that cannot be. Operations before the place of the error were made.
    pub fn expand<E: From<Malformed>>(
        &mut self,
        record: &[u8],
        mut each: impl FnMut(u16, &[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = Reader(record);
        let (mut segment, mut at) = self.place(&mut rest)?;
        while !rest.is_empty() {
            match rest.byte()? {
                SWITCH => (segment, at) = self.place(&mut rest)?,
                CHANGED => {
                    check_ends(segment, at, 1)?;
                    change(segment, at, &mut rest)?;
                    let (kind, body, payload_len) = segment.get(at);
                    each(kind, body, rest.take(payload_len)?)?;
                    at += 1;
                }
                run if run < CHANGED => {
                    check_ends(segment, at, usize::from(run))?;
                    for at in at..at + usize::from(run) {
                        let (kind, body, payload_len) = segment.get(at);
                        if payload_len > 0 {
                            let text = format!("record: operation {at} must have its payload");
                            return Err(Malformed(text).into());
                        }
                        each(kind, body, &[])?;
                    }
                    at += usize::from(run);
                }
                token => return Err(Malformed(format!("record: cannot have token {token}")).into()),
            }
        }
        Ok(())
    }

    fn place(&mut self, rest: &mut Reader<'_>) -> Result<(&mut Segment, usize), Malformed> {
        let (number, at) = (rest.short()?, usize::from(rest.short()?));
        let segment = self.by_number.get_mut(usize::from(number)).and_then(Option::as_mut);
        let missing = || Malformed(format!("record: there is no template {number}"));
        let segment = segment.ok_or_else(missing)?;
        check_ends(segment, at, 0)?;
        Ok((segment, at))
    }
}

fn check_ends(segment: &Segment, at: usize, count: usize) -> Result<(), Malformed> {
    let (end, len) = (at + count, segment.len());
    if end <= len {
        return Ok(());
    }
    Err(Malformed(format!("record: must end within {len} operations, got {end}")))
}

/// Changes the words of an operation.
fn change(segment: &mut Segment, at: usize, rest: &mut Reader<'_>) -> Result<(), Malformed> {
    let mut index = 0_u64;
    for _ in 0..rest.number()? {
        index = index.saturating_add(rest.number()?);
        let outside = || Malformed(format!("record: operation {at} has no word {index}"));
        let (was, place) = segment.word(at, index).ok_or_else(outside)?;
        segment.set(place, rest.word(was)?);
        index += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advance::place;
    use crate::op::Op;
    use crate::segment::{MAX_LEN, MAX_OPS};

    fn templates() -> Templates {
        let mut segment = Segment::default();
        segment.push(&Op { kind: 1, shape: b"shape", words: b"12345678ab", payload: b"" });
        segment.push(&Op { kind: 2, shape: b"", words: b"", payload: b"xy" });
        let mut templates = Templates::default();
        templates.define(3, &segment.write(), |_| true).unwrap();
        templates
    }

    fn expand(templates: &mut Templates, record: &[u8]) -> Result<usize, String> {
        let mut count = 0;
        let each = |_: u16, _: &[u8], _: &[u8]| {
            count += 1;
            Ok::<(), Malformed>(())
        };
        templates.expand(record, each).map_err(|e| e.to_string()).map(|()| count)
    }

    #[test]
    fn hostile_records_are_refused_with_the_reason() {
        let mut templates = templates();
        for (tokens, what) in [
            (&[3, 0, 0][..], "2 more bytes"),
            (&[4, 0, 0, 0], "no template 4"),
            (&[255, 255, 0, 0], "no template 65535"),
            (&[3, 0, 3, 0], "within 2 operations, got 3"),
            (&[3, 0, 0, 0, 3], "within 2 operations, got 3"),
            (&[3, 0, 2, 0, CHANGED, 0], "within 2 operations, got 3"),
            (&[3, 0, 0, 0, 2], "operation 1 must have its payload"),
            (&[3, 0, 1, 0, CHANGED, 0, b'x'], "2 more bytes"),
            (&[3, 0, 0, 0, CHANGED, 1, 2, 0], "no word 2"),
            (&[3, 0, 1, 0, CHANGED, 1, 0, 0], "no word 0"),
            (&[3, 0, 0, 0, 193], "token 193"),
            (&[3, 0, 0, 0, SWITCH, 9, 0, 0, 0], "no template 9"),
        ] {
            let said = expand(&mut templates, tokens).unwrap_err();
            assert!(said.contains(what), "{tokens:?}: {said}");
        }
        let mut far = place(3, 0).to_vec();
        far.extend([CHANGED, 2]);
        for _ in 0..2 {
            crate::advance::put(&mut far, u64::MAX);
            far.push(0);
        }
        assert!(expand(&mut templates, &far).unwrap_err().contains("no word"));
        assert_eq!(expand(&mut templates, &[3, 0, 0, 0, 1, CHANGED, 0, 7, 8]), Ok(2));
    }

    #[test]
    fn definitions_of_another_process_have_changed_words() {
        let mut here = templates();
        let made = |templates: &mut Templates, record: &[u8]| {
            let mut made = Vec::new();
            let each = |kind: u16, body: &[u8], payload: &[u8]| {
                made.push((kind, [body, payload].concat()));
                Ok::<(), Malformed>(())
            };
            templates.expand(record, each).unwrap();
            made
        };
        let grows = [3, 0, 0, 0, CHANGED, 1, 0, 4]; // its first word, by two
        assert_eq!(made(&mut here, &grows), [(1, b"shape32345678ab".to_vec())]);
        let mut there = Templates::default();
        for (number, definition) in here.definitions() {
            there.define(number, &definition, |_| true).unwrap();
        }
        let more = made(&mut there, &grows);
        assert_eq!(more, [(1, b"shape52345678ab".to_vec())]);
        assert_eq!(more, made(&mut here, &grows));
        let rest = [3, 0, 1, 0, CHANGED, 0, b'x', b'y'];
        assert_eq!(made(&mut there, &rest), [(2, b"xy".to_vec())], "its payload has its length");
    }

    #[test]
    fn definitions_are_bounded_and_have_known_kinds_alone() {
        let mut templates = templates();
        let mut large = Segment::default();
        large.push(&Op { kind: 1, shape: &[], words: &[0; MAX_LEN / 2], payload: &[] });
        large.push(&Op { kind: 1, shape: &[], words: &[0; MAX_LEN / 2], payload: &[] });
        let large = large.write();
        let said = templates.define(256, &large, |_| true).unwrap_err().to_string();
        assert!(said.contains("below 256, got 256"), "{said}");
        let said = templates.define(0, &large, |kind| kind == 2).unwrap_err().to_string();
        assert!(said.contains("operation 1"), "{said}");
        let fits = MAX_TOTAL_LEN / MAX_LEN - 1;
        let defined = (10..).take_while(|at| templates.define(*at, &large, |_| true).is_ok());
        assert_eq!(defined.count(), fits, "the small one takes room too");
        templates.define(10, &large, |_| true).expect("in place of another one");
        assert!(templates.define(9, &[0; 12 * (MAX_OPS + 1)], |_| true).is_err());
    }
}
