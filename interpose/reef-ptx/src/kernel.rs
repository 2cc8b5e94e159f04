//! Kernels of a text.

use crate::text::function::Function;
use crate::text::module::{ItemKind, Module};
use crate::variant::build::{Variant, pruned, sliced, variant, with_preemption_points};
use crate::verdict::answer::{Verdict, verdict};
use crate::verdict::reason::Reason;
use crate::verdict::rounding::depends_on_compiler;

/// Kernel of a module.
#[derive(Debug, Clone, Copy)]
pub struct Kernel<'m, 'a> {
    module: &'m Module<'a>,
    function: &'m Function<'a>,
}

/// Kernels that a module defines, in the order of the text.
pub fn kernels<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = Kernel<'m, 'a>> {
    let entries = module.functions().filter(|f| f.is_entry && f.body.is_some());
    entries.map(move |function| Kernel { module, function })
}

impl<'a> Kernel<'_, 'a> {
    /// Name as the driver knows it.
    pub fn name(&self) -> &'a str {
        self.function.name
    }

    /// Number of its instructions in the text.
    pub fn instructions(&self) -> usize {
        self.function.located().count()
    }

    /// Answers whether it may be stopped, sliced, abandoned, or run again.
    pub fn verdict(&self) -> Verdict {
        verdict(self.module, self.function)
    }

    /// A module with this kernel and what it uses, without lines of sources.
    pub fn source(&self) -> String {
        pruned(self.module, self.function)
    }

    /// Its variant: a module with this kernel alone, which can be stopped or sliced.
    ///
    /// # Errors
    ///
    /// The reason for which it may not be stopped.
    pub fn variant(&self) -> Result<Variant, Reason> {
        variant(self.module, self.function)
    }

    /// A variant that also has preemption points: running blocks may be thrown away in loops before
    /// their first effect. They run again from their start.
    ///
    /// # Errors
    ///
    /// The reason for which it has none.
    pub fn with_preemption_points(&self) -> Result<Variant, Reason> {
        with_preemption_points(self.module, self.function)
    }

    /// A variant without the entry guard: it can be sliced, and not stopped.
    ///
    /// # Errors
    ///
    /// The reason for which it may not be sliced.
    pub fn sliced(&self) -> Result<Variant, Reason> {
        sliced(self.module, self.function)
    }

    /// Returns whether the last bits of its results may be others if another compiler compiles it.
    pub fn depends_on_compiler(&self) -> bool {
        let used = self.module.uses(self.function.name);
        let mut functions = used.iter().filter_map(|at| match &self.module.items[*at].kind {
            ItemKind::Function(function) => Some(function),
            _ => None,
        });
        depends_on_compiler(self.function) || functions.any(depends_on_compiler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_rounding_is_found() {
        let of = |instruction: &str| {
            let text = format!(
                ".version 8.0\n.target sm_90\n.entry k() {{ .reg .f32 %f<4>; {instruction}; ret; }}"
            );
            let module = Module::read(&text).unwrap();
            kernels(&module).next().unwrap().depends_on_compiler()
        };
        for free in
            ["mul.f32 %f1, %f2, %f3", "add.ftz.f32 %f1, %f2, %f3", "ex2.approx.f32 %f1, %f2"]
        {
            assert!(of(free), "{free}");
        }
        for fixed in
            ["mul.rn.f32 %f1, %f2, %f3", "fma.rn.f32 %f1, %f2, %f3, %f1", "max.f32 %f1, %f2, %f3"]
        {
            assert!(!of(fixed), "{fixed}");
        }
    }
}
