//! Insertions and replacements in a text.

/// Changes of a text, at places of the old one; everything else stays byte for byte.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    /// Beginning and end of what is replaced, and what comes there.
    changes: Vec<(usize, usize, String)>,
}

impl Edit {
    pub(crate) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at, at, text);
    }

    pub(crate) fn replace(&mut self, at: usize, end: usize, text: impl Into<String>) {
        self.changes.push((at, end, text.into()));
    }

    /// The new text of the ranges, one after the other, which rise. Changes outside of them are
    /// left out; those at one place keep their order.
    pub(crate) fn apply_to(mut self, text: &str, ranges: &[(usize, usize)]) -> String {
        self.changes.sort_by_key(|change| (change.0, change.1));
        let mut changes = self.changes.iter().peekable();
        let mut out = String::new();
        for &(at, end) in ranges {
            let mut done = at;
            while let Some((from, to, new)) = changes.next_if(|change| change.1 <= end) {
                if *from >= done {
                    out.push_str(&text[done..*from]);
                    out.push_str(new);
                    done = *to;
                }
            }
            out.push_str(&text[done..end]);
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_changes_stays() {
        assert_eq!(Edit::default().apply_to("abc", &[(0, 3)]), "abc\n");
    }

    #[test]
    fn changes_apply_in_the_order_of_places() {
        let mut edit = Edit::default();
        edit.replace(4, 5, "E");
        edit.insert(1, "x");
        edit.insert(1, "y");
        edit.insert(7, "out");
        edit.insert(8, "in");
        assert_eq!(edit.apply_to("abcdefghi", &[(1, 6), (8, 9)]), "xybcdEf\nini\n");
    }
}
