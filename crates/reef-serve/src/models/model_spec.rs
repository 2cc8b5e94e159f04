//! Specification of one version of a model.

use super::config::model_config::{BATCH_RT, SCALES};
use super::config::upload::Upload;
use super::declaration::{Declaration, Shapes};
use super::description::{Description, EngineKind, Instances, Placing};
use super::source::{ModelSource, read_error};
use super::state::spec::StateSpec;
use crate::class::Class;
use crate::error::{Error, Result};
use crate::name::ModelName;
use crate::process::settings::Program;
use crate::requests::batch::Batching;
use reef::models::profile::Latencies;
use reef::models::{Budget, Model, Scales};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Seed of the weights of built-in networks, as in the other commands.
const SEED: u64 = 2022;

/// Source and settings of one version of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelSpec {
    pub(crate) name: ModelName,
    pub(crate) version: u32,
    pub(crate) source: ModelSource,
    /// Engine in place of the source.
    fallback: Fallback,
    /// Shapes of networks that are created at the load.
    pub(crate) shapes: Vec<BTreeMap<String, Vec<usize>>>,
    /// Batching for each of [`Class::ALL`](crate::class::Class::ALL).
    pub(crate) batching: [Option<Batching>; 2],
    size: Option<usize>,
    batch: Option<usize>,
    /// Name of the file of scales, for numbers of 8 bits between its steps; may be empty.
    scales: Option<String>,
    /// Folder of its files, or its only file.
    place: PathBuf,
    /// Latencies of its kernels, if they are stored with it.
    profile: Option<PathBuf>,
    /// True if kernels without stored latencies are measured.
    pub(crate) measure: bool,
    /// Time without a request after which a network leaves its device, if it is there on demand.
    pub(crate) idle: Option<Duration>,
    pub(crate) instances: Instances,
    /// Rule that selects its devices.
    pub(crate) placing: Placing,
    /// Tensors that stay on the device from one request of a sequence to the next. It has none if a
    /// program keeps the state.
    pub(crate) state: Option<StateSpec>,
    /// Files that came with a load; they are read again for each shape.
    pub(super) upload: Option<Arc<Upload>>,
}

/// Engine that takes the place of a network whose file is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fallback {
    /// None, because the description says the engine.
    None,
    /// A program that the description does not name.
    Unnamed,
    Program(Program),
}

impl ModelSpec {
    /// Specifies version `version` of a model whose files are in `place`.
    ///
    /// # Errors
    ///
    /// Errors of the place, with the model.
    pub(super) fn new(
        description: &Description,
        name: &ModelName,
        version: u32,
        place: &Path,
    ) -> Result<Self> {
        let source =
            ModelSource::find(place, description).map_err(|error| of(name, version, error))?;
        let fallback =
            Fallback::new(description, place).map_err(|error| of(name, version, error))?;
        if let Some(file) = description.scales_file()
            && !place.is_dir()
        {
            return Err(of(name, version, no_folder(file)));
        }
        let profile = Some(place.join("profile.json")).filter(|file| reef_files::is_taken(file));
        let (scales, place) = (description.scales.clone(), place.to_path_buf());
        let Description { size, batch, measure, instances, .. } = *description;
        let (name, shapes) = (name.clone(), description.shapes.clone());
        let (batching, placing) = (description.batching(), description.placing());
        let idle = description.idle_time();
        let state = description.state().map_err(|why| of(&name, version, Error::Invalid(why)))?;
        Ok(Self {
            name,
            version,
            source,
            fallback,
            shapes,
            batching,
            size,
            batch,
            scales,
            place,
            profile,
            measure,
            idle,
            instances,
            placing,
            state,
            upload: None,
        })
    }

    /// Specifies a built-in network with made-up weights.
    pub(super) fn builtin(name: &ModelName, description: &Description) -> Self {
        Self {
            name: name.clone(),
            version: 1,
            source: ModelSource::Seeded { network: name.as_str().into(), seed: SEED },
            fallback: Fallback::None,
            shapes: Vec::new(),
            batching: description.batching(),
            size: None,
            batch: None,
            scales: None,
            place: PathBuf::new(),
            profile: None,
            measure: false,
            idle: description.idle_time(),
            instances: description.instances,
            placing: description.placing(),
            state: None,
            upload: None,
        }
    }

    /// Returns the batching, if any class has one; all classes share it.
    pub(crate) fn batching(&self) -> Option<Batching> {
        self.batching.iter().flatten().next().copied()
    }

    /// True if real-time requests are batched.
    pub(crate) fn batches_rt(&self) -> bool {
        self.batching[Class::RealTime as usize].is_some()
    }

    /// True if the first size of all tensors is a number of rows: batches of a program of its own
    /// consist of requests.
    pub(crate) fn has_rows(&self) -> bool {
        self.program().is_none_or(Program::has_rows)
    }

    /// Returns the batching of rows: a configuration in Triton's form has no other.
    pub(crate) fn row_batching(&self) -> Option<Batching> {
        self.batching().filter(|_| self.has_rows())
    }

    /// Maximum number of rows of requests and batches, for its configuration.
    pub(crate) fn max_rows(&self) -> usize {
        self.row_batching().map_or(1, |batching| batching.max)
    }

    /// Maximum number of rows of a batch, or of its requests if it has no rows.
    pub(crate) fn max_batch(&self) -> usize {
        self.batching().map_or(1, |batching| batching.max)
    }

    /// True if it brings kernels, which are native code of their author.
    pub(super) fn brings_kernels(&self) -> bool {
        matches!(self.source, ModelSource::Program(_))
    }

    pub(crate) fn program(&self) -> Option<&Program> {
        match &self.source {
            ModelSource::Process(program) => Some(program),
            _ => None,
        }
    }

    /// Returns the program that its description names, which may not be its engine.
    pub(super) fn named_program(&self) -> Option<&Program> {
        match &self.fallback {
            Fallback::Program(program) => Some(program),
            Fallback::None | Fallback::Unnamed => self.program(),
        }
    }

    /// Returns the specification for an engine that takes the place of its network, whose file is
    /// not read for the reason `why`. Logs that.
    ///
    /// # Errors
    ///
    /// `Unsupported` with the reason if there is none, and the key that would help.
    pub(super) fn fall_back(&self, why: String) -> Result<Self> {
        let program = match &self.fallback {
            Fallback::Program(program) => program.clone(),
            Fallback::None => return Err(Error::Unsupported(why)),
            Fallback::Unnamed => {
                return Err(Error::Unsupported(format!(
                    "{why}; or name a program in process.command of model.toml"
                )));
            }
        };
        let (model, version) = (&self.name, self.version);
        tracing::info!(%model, version, %why, "its program answers, because the file is not read");
        Ok(Self {
            source: ModelSource::Process(program),
            fallback: Fallback::None,
            shapes: Vec::new(),
            size: None,
            batch: None,
            scales: None,
            profile: None,
            measure: false,
            idle: None,
            ..self.clone()
        })
    }

    /// True if a process answers its requests.
    pub(crate) fn is_process(&self) -> bool {
        self.program().is_some()
    }

    /// Returns its engine in metrics.
    pub(crate) fn engine(&self) -> &'static str {
        if self.is_process() { "process" } else { "reef" }
    }

    /// Returns its platform in metadata: made-up weights are marked, because they were not trained.
    pub(crate) fn platform(&self) -> &'static str {
        match self.source {
            ModelSource::Seeded { .. } => "reef_made_up_weights",
            ModelSource::Process(_) => "reef_process",
            _ => "reef",
        }
    }

    /// True if its weights come from a seed.
    pub(crate) fn is_made_up(&self) -> bool {
        matches!(self.source, ModelSource::Seeded { .. })
    }

    /// Returns the source's declaration, with the sizes that the description fixes. Each reading of
    /// the file takes memory of a `budget` of its own.
    ///
    /// # Errors
    ///
    /// The first error, with the model and the file; `Exhausted`.
    pub(crate) fn declared(&self, budget: &dyn Fn() -> Budget) -> Result<Option<Declaration>> {
        let declared =
            self.source.declared(self.size, self.max_batch() > 1, &self.shapes, &budget());
        let mut declared = declared.map_err(|error| of(&self.name, self.version, error))?;
        if let Some(declaration) = &mut declared {
            let tokens = self.source.is_text().then_some(self.size).flatten();
            let fixed = declaration.fix(tokens, self.size, self.batch);
            fixed.map_err(|error| of(&self.name, self.version, error))?;
            let shapes = self.shapes.first();
            self.source.find_values(declaration, shapes, self.size, self.batch, budget);
        }
        Ok(declared)
    }

    /// Reads it for these shapes, with memory of `budget`.
    ///
    /// # Errors
    ///
    /// Errors of [`open`](Self::open).
    pub(crate) fn open_shaped(
        &self,
        declaration: &Declaration,
        shapes: &Shapes,
        budget: &Budget,
    ) -> Result<Model> {
        let read = self.source.open_shaped(declaration, shapes, self.size, budget);
        let read = read.and_then(|model| self.with_files(model, budget));
        read.map_err(|error| of(&self.name, self.version, error))
    }

    /// Parameters of its configuration in Triton's form.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let batch_rt = self.batching().map(|_| (BATCH_RT, self.batches_rt().to_string()));
        let scales = self.scales.as_ref().map(|file| (SCALES, file.clone()));
        batch_rt.into_iter().chain(scales).collect()
    }

    /// Adds the scales and the latencies that are stored with it.
    fn with_files(&self, mut model: Model, budget: &Budget) -> Result<Model> {
        if let Some(file) = self.scales.as_ref().filter(|file| !file.is_empty()) {
            let file = self.place.join(file);
            let scales = Scales::load_within(&file, budget);
            let scales = scales.and_then(|scales| model.with_scales(&scales));
            model = scales.map_err(|error| read_error(&file, error))?;
        }
        match &self.profile {
            Some(profile) if model.kernels().is_none() => {
                Ok(model.with_latencies(Some(Latencies::load_within(profile, budget)?)))
            }
            _ => Ok(model),
        }
    }

    /// Reads everything for the default shapes, with memory of `budget`.
    ///
    /// # Errors
    ///
    /// The first error, with the model and the file; `Exhausted`.
    pub(crate) fn open(&self, declaration: Option<&Declaration>, budget: &Budget) -> Result<Model> {
        let values = declaration.map(|declaration| declaration.values(None)).unwrap_or_default();
        let shapes = self.shapes.first();
        let read = self.source.open(self.size, self.batch, shapes, &values, budget);
        let read = read.and_then(|model| self.with_files(model, budget));
        read.map_err(|error| of(&self.name, self.version, error))
    }
}

impl Fallback {
    /// Returns what a description has for the version in `place`.
    fn new(description: &Description, place: &Path) -> Result<Self> {
        match (description.engine, &description.process) {
            (Some(EngineKind::Auto), Some(process)) => {
                Program::new(process, place).map(Self::Program)
            }
            (Some(EngineKind::Auto), None) => Ok(Self::Unnamed),
            (Some(EngineKind::Process) | None, _) => Ok(Self::None),
        }
    }
}

/// Returns the error for scales of a model that has no folder.
pub(super) fn no_folder(scales: &str) -> Error {
    Error::Invalid(format!("it has no folder for scales, got {scales:?}"))
}

/// Adds the model to an error.
pub(super) fn of(name: &ModelName, version: u32, error: Error) -> Error {
    error.map_text(|text| format!("model {name}/{version}: {text}"))
}
