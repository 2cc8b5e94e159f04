//! A module with one kernel and what it uses.

use crate::text::cursor::words;
use crate::text::edit::Edit;
use crate::text::function::Function;
use crate::text::module::{ItemKind, Module};
use crate::text::statement::StatementKind;

/// The text of a kernel and of all that it uses, with changes; lines of sources are left out.
pub(super) fn prune(module: &Module<'_>, kernel: &Function<'_>, mut edit: Edit) -> String {
    let used = module.uses(kernel.name);
    for item in used.iter().map(|at| &module.items[*at]) {
        if let ItemKind::Function(Function { body: Some(body), .. }) = &item.kind {
            for statement in &body.statements {
                if matches!(statement.kind, StatementKind::Directive(".loc" | ".file", _)) {
                    edit.replace(statement.at, statement.end, "");
                }
            }
        }
    }
    let mut ranges = Vec::new();
    let mut header = String::new();
    for (at, item) in module.items.iter().enumerate() {
        match &item.kind {
            ItemKind::Directive(".target") => header += &target(&module.text[item.at..item.end]),
            ItemKind::Directive(".version" | ".address_size") => {
                header += &module.text[item.at..item.end];
                header += "\n";
            }
            _ if used.binary_search(&at).is_ok() => ranges.push((item.at, item.end)),
            _ => {}
        }
    }
    header + &edit.apply_to(module.text, &ranges)
}

/// The directive without `debug`, which asks for the lines that are left out.
fn target(directive: &str) -> String {
    let options: Vec<_> = words(directive).skip(1).filter(|option| *option != "debug").collect();
    format!(".target {}\n", options.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_target_stay_but_for_debug() {
        assert_eq!(target(".target\tsm_90a"), ".target sm_90a\n");
        let lines = ".target sm_90, // two lines\n debug, texmode_unified";
        assert_eq!(target(lines), ".target sm_90, texmode_unified\n");
    }
}
