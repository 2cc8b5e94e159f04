//! Resource of each GPU: a class, its number of replicas and its limits.

use crate::error::{Error, Result};
use reef_guest::limit::{MAX_JOBS, WHOLE, bytes, parts_per_million, percent};
use reef_guest::page::Class;

/// The domain of our resources' names.
const DOMAIN: &str = "reef.dev";

/// A class that containers can ask for, `replicas` times on each GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Class of programs in such a container.
    pub class: Class,
    /// Containers that may share each GPU in this class. All classes together must not exceed the
    /// places in a GPU's accounts.
    pub replicas: u32,
    /// Most device memory of each of them, such as `8GiB`.
    pub memory: Option<String>,
    /// Part of the device's time of each of them, such as `30%`.
    pub compute: Option<String>,
}

impl Resource {
    /// Name of the resource in pods.
    pub fn name(&self) -> String {
        format!("{DOMAIN}/{}", self.class)
    }

    /// File name of its socket, next to the kubelet's.
    pub(crate) fn endpoint(&self) -> String {
        format!("{DOMAIN}-{}.sock", self.class)
    }

    /// The kubelet's ids for the devices of one GPU: at most 63 characters, as a UUID has 40.
    pub(crate) fn ids<'a>(&'a self, gpu: &'a str) -> impl Iterator<Item = String> + 'a {
        (0..self.replicas).map(move |number| format!("{gpu}-{}-{number:02}", self.class))
    }

    /// Checks that it can be kept: limits are valid, and real-time work is not more than the daemon
    /// admits.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |why: String| Error::Refused(format!("{}: {why}", self.name()));
        let named = |text: &str| {
            let text = text.to_owned();
            move |why: String| refused(format!("{text:?}: {why}"))
        };
        if let Some(text) = &self.memory {
            bytes(text).map_err(named(text))?;
        }
        let part = self.compute.as_ref().map(|text| parts_per_million(text).map_err(named(text)));
        match part.transpose()? {
            Some(part) if self.class == Class::RealTime => self.check_sum(part),
            _ => Ok(()),
        }
    }

    /// The daemon grants the class while the parts of all real-time programs come to a whole
    /// device.
    fn check_sum(&self, part: u32) -> Result<()> {
        let sum = u64::from(part) * u64::from(self.replicas);
        if sum <= WHOLE.into() {
            return Ok(());
        }
        let sum = percent(sum);
        let (name, replicas) = (self.name(), self.replicas);
        let each = self.compute.as_deref().unwrap_or_default();
        Err(Error::Refused(format!(
            "{name}: {replicas} times {each} is {sum} % of a device, 100 % at most are admitted"
        )))
    }
}

/// Each container is a job with a name of its own, and a GPU's accounts have a fixed number of
/// places for jobs.
pub(crate) fn check_places(resources: &[Resource]) -> Result<()> {
    let sum: u64 = resources.iter().map(|resource| u64::from(resource.replicas)).sum();
    if sum <= MAX_JOBS as u64 {
        return Ok(());
    }
    let each = |resource: &Resource| format!("{} {}", resource.name(), resource.replicas);
    let each: Vec<_> = resources.iter().map(each).collect();
    let each = each.join(", ");
    Err(Error::Refused(format!("{sum} containers of each GPU asked ({each}), {MAX_JOBS} at most")))
}

/// The GPU of a device id, of any class.
pub(crate) fn gpu_of(id: &str) -> Option<&str> {
    let (rest, _number) = id.rsplit_once('-')?;
    rest.rsplit_once('-').map(|(gpu, _class)| gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(class: Class, replicas: u32, compute: Option<&str>) -> Resource {
        Resource { class, replicas, memory: None, compute: compute.map(str::to_owned) }
    }

    #[test]
    fn ids_name_their_gpu_and_are_short_enough() {
        let uuid = "GPU-0a1b2c3d-0000-1111-2222-333344445555";
        let be = resource(Class::BestEffort, MAX_JOBS as u32, None);
        let ids: Vec<_> = be.ids(uuid).collect();
        assert_eq!(ids[3], format!("{uuid}-be-03"));
        assert!(ids.iter().all(|id| id.len() <= 63 && gpu_of(id) == Some(uuid)));
    }

    #[test]
    fn containers_of_both_classes_fit_into_a_gpus_accounts() {
        let both = |rt, be| {
            check_places(&[
                resource(Class::RealTime, rt, None),
                resource(Class::BestEffort, be, None),
            ])
        };
        both(1, 31).unwrap();
        let line = both(2, 31).unwrap_err().to_string();
        assert_eq!(
            line,
            "33 containers of each GPU asked (reef.dev/rt 2, reef.dev/be 31), 32 at most"
        );
        both(u32::MAX, u32::MAX).unwrap_err();
    }

    #[test]
    fn resource_that_cannot_be_kept_is_refused_with_both_numbers() {
        let refused = |resource: Resource| resource.check().unwrap_err().to_string();
        let rt = refused(resource(Class::RealTime, 4, Some("30%")));
        assert_eq!(rt, "reef.dev/rt: 4 times 30% is 120 % of a device, 100 % at most are admitted");
        resource(Class::BestEffort, 4, Some("30%")).check().unwrap();
        let none = refused(resource(Class::BestEffort, 1, Some("0")));
        assert!(none.starts_with("reef.dev/be: \"0\": not a share"), "{none}");
        let third = refused(resource(Class::RealTime, 3, Some("33.4%")));
        let wanted =
            "reef.dev/rt: 3 times 33.4% is 100.2 % of a device, 100 % at most are admitted";
        assert_eq!(third, wanted, "whole per cents would let it pass");
        resource(Class::RealTime, 3, Some("33.3333%")).check().unwrap();
        let size =
            Resource { memory: Some("8 furlongs".into()), ..resource(Class::BestEffort, 1, None) };
        assert!(refused(size).starts_with("reef.dev/be: \"8 furlongs\": "));
    }
}
