//! A model whose instances are processes, behind the same interface as a model on a device.

use super::connection::Tensors;
use super::settings::Program;
use super::supervisor::{Role, Supervisor};
use crate::class::Class;
use crate::engine::api::{DeviceModel, Instance, Run, RunTiming};
use crate::engine::call::{Call, CallOutput, TextAbilities};
use crate::error::{Error, Result};
use crate::residency::residents::{Residents, no_room};
use crate::suspend::suspensions::Suspensions;
use crate::tensor::TensorInfos;
use parking_lot::Mutex;
use reef::{ClientConfig, HostMemory};
use reef_suspend::Uuid;
use reef_suspend::store::Store;
use std::any::Any;
use std::sync::Arc;

/// Facts about a model that its processes are told.
#[derive(Debug, Clone)]
pub(crate) struct ProcessModelSpec<'a> {
    pub(crate) program: &'a Program,
    pub(crate) model: &'a str,
    pub(crate) version: u32,
    pub(crate) device: &'a str,
    /// Number of processes for each of [`Class::ALL`].
    pub(crate) instances: [usize; 2],
    /// Maximum bytes of an answer.
    pub(crate) max_bytes: u64,
    /// Maximum size of a batch; 1: requests come alone.
    pub(crate) max_batch: usize,
    /// Set if its processes are on the GPU on demand.
    pub(crate) residents: Option<&'a Arc<Residents>>,
    /// Set if its processes may be guests, which operators suspend.
    pub(crate) suspensions: Option<&'a Arc<Suspensions>>,
    /// Identity of the device, if that is a GPU.
    pub(crate) gpu: Option<Uuid>,
    /// Folders from which processes on demand start.
    pub(crate) checkpoints: Option<&'a Arc<Store>>,
}

/// A model whose processes run.
#[derive(Debug)]
pub(crate) struct ProcessModel {
    role: Role,
    tensors: Arc<Tensors>,
    supervisors: Vec<(Class, Arc<Supervisor>)>,
    /// Supervisors without an instance.
    free: Mutex<Vec<(Class, Arc<Supervisor>)>>,
}

impl ProcessModel {
    /// Starts all processes, and waits until they are ready.
    ///
    /// # Errors
    ///
    /// The first failure of a process; `Invalid` if the program cannot have batches; `Unavailable`
    /// if `is_closing`.
    pub(crate) fn start(
        spec: &ProcessModelSpec<'_>,
        is_closing: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let supervisors = start_supervisors(spec)?;
        let ready = supervisors
            .iter()
            .map(|(_, supervisor)| supervisor.ready(is_closing))
            .collect::<Result<Vec<_>>>();
        match ready.and_then(same).and_then(|tensors| spec.check_batches(tensors)) {
            Ok(tensors) => {
                let free = Mutex::new(supervisors.clone());
                Ok(Self { role: spec.role(Class::RealTime, 0), tensors, supervisors, free })
            }
            Err(error) => {
                end(&supervisors);
                Err(error)
            }
        }
    }

    /// Returns its inputs: -1 is a size that each request chooses.
    pub(crate) fn inputs(&self) -> &TensorInfos {
        &self.tensors.inputs
    }

    /// Returns its outputs: -1 is a size that each answer chooses.
    pub(crate) fn outputs(&self) -> &TensorInfos {
        &self.tensors.outputs
    }
}

impl ProcessModelSpec<'_> {
    fn role(&self, class: Class, instance: usize) -> Role {
        Role {
            program: self.program.clone(),
            model: self.model.into(),
            version: self.version,
            class: class.name(),
            instance,
            device: self.device.into(),
            max_bytes: self.max_bytes,
            max_batch: self.max_batch,
            residents: self.residents.cloned(),
            suspensions: self.suspensions.cloned(),
            gpu: self.gpu,
            checkpoints: self.checkpoints.cloned(),
        }
    }

    /// Refuses batches for a program that takes requests alone.
    fn check_batches(&self, tensors: Arc<Tensors>) -> Result<Arc<Tensors>> {
        let max = self.max_batch;
        if max > 1 && (tensors.streams || !tensors.batches) {
            return Err(Error::Invalid(format!(
                "max_batch must be 0 or 1 for a program that takes requests alone, got {max}"
            )));
        }
        Ok(tensors)
    }
}

fn start_supervisors(spec: &ProcessModelSpec<'_>) -> Result<Vec<(Class, Arc<Supervisor>)>> {
    let mut supervisors = Vec::new();
    for (class, count) in Class::ALL.into_iter().zip(spec.instances) {
        for instance in 0..count {
            match Supervisor::start(spec.role(class, instance)) {
                Ok(supervisor) => supervisors.push((class, supervisor)),
                Err(error) => {
                    end(&supervisors);
                    return Err(error);
                }
            }
        }
    }
    Ok(supervisors)
}

/// Ends all processes, and waits for that.
fn end(supervisors: &[(Class, Arc<Supervisor>)]) {
    supervisors.iter().for_each(|(_, supervisor)| supervisor.begin_end());
    supervisors.iter().for_each(|(_, supervisor)| supervisor.end());
}

/// Returns the tensors, which must be those of all instances.
fn same(all: Vec<Arc<Tensors>>) -> Result<Arc<Tensors>> {
    let first = all.first().cloned();
    let first = first.ok_or_else(|| Error::Invalid("instances must be at least 1".into()))?;
    if all.iter().any(|tensors| **tensors != *first) {
        return Err(Error::Failed("all processes of a model must declare the same tensors".into()));
    }
    Ok(first)
}

impl DeviceModel for ProcessModel {
    fn instance(&self, class: Class, _: ClientConfig) -> Result<Box<dyn Instance>> {
        let mut free = self.free.lock();
        let at = free.iter().position(|(of, _)| *of == class);
        let supervisor = match at {
            Some(at) => free.swap_remove(at).1,
            // A panic has taken one: another takes its place.
            None => Supervisor::start(Role { class: class.name(), ..self.role.clone() })?,
        };
        Ok(Box::new(ProcessInstance(supervisor)))
    }

    fn own_bytes(&self) -> u64 {
        0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn streams(&self) -> bool {
        self.tensors.streams
    }

    fn text(&self) -> Option<&TextAbilities> {
        self.tensors.text.as_ref()
    }

    fn opens_device_memory(&self) -> bool {
        self.tensors.device_memory && self.role.has_device_memory()
    }

    fn late(&self, class: Class) -> Option<Error> {
        let of_class = || self.supervisors.iter().filter(|(of, _)| *of == class);
        let is_off =
            of_class().count() > 0 && of_class().all(|(_, supervisor)| supervisor.is_off());
        is_off.then(no_room)
    }

    fn is_in_the_way(&self, class: Class) -> bool {
        self.supervisors.iter().any(|(of, supervisor)| *of == class && supervisor.is_in_the_way())
    }

    fn close(&self) {
        self.supervisors.iter().for_each(|(_, supervisor)| supervisor.close());
    }

    fn begin_end(&self) {
        self.supervisors.iter().for_each(|(_, supervisor)| supervisor.begin_end());
    }
}

impl Drop for ProcessModel {
    fn drop(&mut self) {
        end(&self.supervisors);
    }
}

/// A process for one request or batch at a time.
#[derive(Debug)]
struct ProcessInstance(Arc<Supervisor>);

impl Instance for ProcessInstance {
    fn write(&mut self, _: usize, _: &[u8]) -> Result<()> {
        Err(not_a_network())
    }

    fn share(&mut self, _: HostMemory, _: &[(usize, usize)]) -> Result<bool> {
        Ok(false)
    }

    fn run(&mut self, _: Run<'_>) -> Result<RunTiming> {
        Err(not_a_network())
    }

    fn read(&mut self, _: usize, _: &mut [u8]) -> Result<()> {
        Err(not_a_network())
    }

    fn call(&mut self, call: Call<'_>) -> Result<Vec<CallOutput>> {
        self.0.call(call)
    }

    fn call_all(&mut self, calls: &[Call<'_>]) -> Vec<Result<Vec<CallOutput>>> {
        self.0.call_all(calls)
    }

    fn reads_files(&self) -> bool {
        self.0.reads_files()
    }

    fn recovers(&self) -> bool {
        true
    }
}

impl Drop for ProcessInstance {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn not_a_network() -> Error {
    Error::Unimplemented("memory of a model that is a process".into())
}
