//! From a path in a file to the file that defines its name.

use super::source::{Module, Modules, NamedPath};
use std::path::Path;

/// A file needs a name that another one defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrow<'a> {
    pub(super) from: &'a Path,
    pub(super) to: &'a Path,
    pub(super) line: usize,
    pub(super) name: String,
    /// The face that the path goes through.
    pub(super) through: Option<&'a Path>,
}

/// Re-exports of re-exports are followed so far.
const MAX_DEPTH: usize = 16;

/// Names that files of a crate need of each other.
pub(super) fn arrows(modules: &Modules) -> Vec<Arrow<'_>> {
    let mut all = Vec::new();
    for (at, module) in modules {
        let names = module.paths.iter().filter(|name| !(name.is_export && module.is_face));
        all.extend(names.filter_map(|name| arrow(modules, at, module, name)));
    }
    all.sort();
    all.dedup();
    all
}

fn arrow<'a>(
    modules: &'a Modules,
    at: &[String],
    module: &'a Module,
    named: &NamedPath,
) -> Option<Arrow<'a>> {
    let search = Search { modules, from: &module.file };
    if search.is_brought(at, module, &named.path) {
        return None;
    }
    let found = search.absolute(at, &named.path, MAX_DEPTH)?;
    let arrow = Arrow {
        from: &module.file,
        to: found.file,
        line: named.line,
        name: named.path.join("::"),
        through: found.through,
    };
    (arrow.from != arrow.to).then_some(arrow)
}

/// End of a path.
struct Found<'a> {
    file: &'a Path,
    through: Option<&'a Path>,
}

struct Search<'a> {
    modules: &'a Modules,
    from: &'a Path,
}

impl<'a> Search<'a> {
    /// True if the path begins with a name whose `use` line has an arrow of its own.
    fn is_brought(&self, at: &[String], module: &Module, path: &[String]) -> bool {
        let import = module.imports.get(&path[0]).filter(|import| *import != path);
        import.is_some_and(|import| self.absolute(at, import, MAX_DEPTH).is_some())
    }

    /// Finds a path as it stands in module `at`; `None` if it leaves the crate.
    fn absolute(&self, at: &[String], path: &[String], depth: usize) -> Option<Found<'a>> {
        let depth = depth.checked_sub(1)?;
        let mut base = at.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &path[1..];
            }
            "self" | "super" => {
                while let Some(word @ ("self" | "super")) = rest.first().map(String::as_str) {
                    if word == "super" {
                        base.pop();
                    }
                    rest = &rest[1..];
                }
            }
            first if self.modules.contains_key(&[at, &[first.into()]].concat()) => {}
            first => {
                let import = self.modules[at].imports.get(first).filter(|import| *import != path);
                let whole = [import?.as_slice(), &path[1..]].concat();
                return self.absolute(at, &whole, depth);
            }
        }
        self.walk(base, rest, depth)
    }

    /// Walks down from module `base`.
    fn walk(&self, mut base: Vec<String>, path: &[String], depth: usize) -> Option<Found<'a>> {
        let mut rest = path;
        while let Some(name) = rest.first() {
            base.push(name.clone());
            if !self.modules.contains_key(&base) {
                base.pop();
                return self.name(&base, rest, depth);
            }
            rest = &rest[1..];
        }
        let module = &self.modules[&base];
        // The name of a folder alone: the paths that begin with it have arrows of their own.
        (!module.is_face).then_some(Found { file: &module.file, through: None })
    }

    /// Finds what module `at` calls `path[0]`.
    fn name(&self, at: &[String], path: &[String], depth: usize) -> Option<Found<'a>> {
        let module = &self.modules[at];
        let is_through = module.is_face && module.file != self.from;
        let through = is_through.then_some(module.file.as_path());
        let here = || Found { file: &module.file, through };
        if module.defines.contains(&path[0]) {
            return Some(here());
        }
        let found = match module.imports.get(&path[0]) {
            Some(import) => self.absolute(at, import, depth),
            None => self.by_glob(at, module, path, depth),
        };
        Some(match found {
            Some(found) => Found { through: through.or(found.through), ..found },
            None => here(),
        })
    }

    fn by_glob(
        &self,
        at: &[String],
        module: &Module,
        path: &[String],
        depth: usize,
    ) -> Option<Found<'a>> {
        let whole = |glob: &Vec<String>| [glob.as_slice(), path].concat();
        let mut found = module.globs.iter().filter_map(|g| self.absolute(at, &whole(g), depth));
        found.next()
    }
}
