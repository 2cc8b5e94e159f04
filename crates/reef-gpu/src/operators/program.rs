//! Kernels of programs: compiled, loaded, and found by name.

use crate::code::kernel::Kernel;
use crate::code::loaded::Code;
use crate::code::module::{Module, ModuleKind};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::hal::image::Build;
use reef_core::{Error, Result};
use reef_op::program::{Call, Program, ProgramText, SourceFile};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The kernel of each call.
pub(super) fn kernels<V: Vendor>(gpu: &Gpu<V>, program: &Program) -> Result<Vec<Kernel<V>>> {
    let ProgramText { files, calls } = program.text();
    let modules: Vec<_> = files.iter().map(|file| load(gpu, file)).collect::<Result<_>>()?;
    let mut known: HashMap<(usize, &str), Kernel<V>> = HashMap::new();
    for call in calls {
        if let Entry::Vacant(place) = known.entry((call.file, call.kernel.as_str())) {
            place.insert(find(files, &modules, call)?);
        }
    }
    let kernel = |call: &Call| known[&(call.file, call.kernel.as_str())].clone();
    Ok(calls.iter().map(kernel).collect())
}

fn load<V: Vendor>(gpu: &Gpu<V>, file: &SourceFile) -> Result<Module<V>> {
    let loaded = if file.guarded { gpu.compile(&file.text) } else { unguarded(gpu, &file.text) };
    loaded.map_err(|error| match error {
        Error::Invalid(why) => Error::invalid(file.name.clone(), why.to_string()),
        other => other,
    })
}

/// Kernels without a guard: queues that stop what runs refuse them, as they do those of
/// [`Gpu::load`].
fn unguarded<V: Vendor>(gpu: &Gpu<V>, source: &str) -> Result<Module<V>> {
    let image = gpu.context().vendor.compile(source, Build::Plain)?;
    // SAFETY: it was compiled just now.
    let code = unsafe { Code::load(gpu.context(), &image) }?;
    Ok(Module(Arc::new(ModuleKind::Opaque(code))))
}

fn find<V: Vendor>(files: &[SourceFile], modules: &[Module<V>], call: &Call) -> Result<Kernel<V>> {
    let Some(module) = modules.get(call.file) else {
        return Err(Error::invalid(
            format!("kernel {}", call.kernel),
            format!("no file {}", call.file),
        ));
    };
    let kernel = module.kernel(&call.kernel).map_err(|error| match error {
        Error::NotFound(why) => Error::NotFound(format!("{}: {why}", files[call.file].name)),
        other => other,
    })?;
    kernel.check_words(call.args.len())?;
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use reef_core::Device;
    use reef_op::program::{LoadedProgram, RegionPart};

    fn program(args: Vec<usize>) -> Program {
        let file = SourceFile { name: "a.cu".into(), text: String::new(), guarded: true };
        let call = Call { file: 0, kernel: "k".into(), grid: [2, 1, 1], block: [32, 1, 1], args };
        // SAFETY: the vendor of tests runs nothing.
        unsafe { Program::trusted(ProgramText { files: vec![file], calls: vec![call] }) }
    }

    #[test]
    fn launches_take_what_a_call_says_and_no_less() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let loaded = LoadedProgram::load(&gpu, program(vec![64, 8])).unwrap();
        let other = LoadedProgram::load(&gpu, program(vec![64, 8])).unwrap();
        let (region, foreign) = (loaded.alloc(128).unwrap(), other.alloc(128).unwrap());
        let part = |offset| RegionPart { region: &region, offset };
        let made = loaded.launches(&[vec![part(64), part(0)]]).unwrap();
        let at = gpu.address(region.buffer());
        assert_eq!(made[0].args().words(), [at + 64, at]);
        let says = |parts| loaded.launches(&[parts]).unwrap_err().to_string();
        let short = "kernel k: argument 0 must be of this program, with 64 bytes";
        assert_eq!(says(vec![part(65), part(0)]), short);
        assert_eq!(says(vec![part(usize::MAX), part(0)]), short);
        assert_eq!(says(vec![RegionPart { region: &foreign, offset: 0 }, part(0)]), short);
        assert_eq!(says(vec![part(0)]), "kernel k: must have 2 arguments, got 1");
        let none = loaded.launches(&[]).unwrap_err().to_string();
        assert_eq!(none, "arguments: must be those of 1 calls, got 0");
    }

    #[test]
    fn more_arguments_than_fit_are_refused() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let loaded = LoadedProgram::load(&gpu, program(vec![1; 9])).unwrap();
        let error = loaded.launches(&[Vec::new()]).unwrap_err().to_string();
        assert!(error.ends_with("kernel k has 9 arguments, most is 8"), "{error}");
    }
}
