//! Parameters of a device class and of a claim: class, memory, share. Other parameters are refused.

use super::quantity::Quantity;
use reef_guest::limit::{WHOLE, bytes, format_bytes, parts_per_million, percent};
use reef_guest::page::Class;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Opaque parameters: `{"class": "rt", "memory": "8GiB", "compute": "30%"}`, each of which may be
/// missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    class: Option<Name>,
    memory: Option<String>,
    compute: Option<String>,
}

/// Smallest part of the time that programs accept as a limit, in parts per million.
const MIN_PART: u32 = WHOLE / 100;

/// Reason for which pods get no protected part of the memory, which the kernel alone can give.
const NO_KERNEL_LIMITS: &str = "cannot be kept in a pod, as its cgroups belong to the kubelet; memory is a limit that the library keeps";

/// A class by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Rt,
    Be,
}

/// A class and limits that were granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Granted {
    class: Name,
    /// Bytes.
    pub(super) memory: Option<u64>,
    /// Parts per million of the device's time.
    pub(super) compute: Option<u32>,
}

/// Limits without a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limits {
    memory: Option<u64>,
    compute: Option<u32>,
}

impl Settings {
    /// # Errors
    ///
    /// An unknown field by its name, a value of another type, a limit that can't be read.
    pub(super) fn read(parameters: &Value) -> Result<Self, String> {
        if !parameters.is_object() {
            return Err(format!("parameters must be an object, got {parameters}"));
        }
        if let Some(name) =
            ["memory_low", "memoryLow"].iter().find(|of| parameters.get(of).is_some())
        {
            return Err(format!("{name}: {NO_KERNEL_LIMITS}"));
        }
        let read = Self::deserialize(parameters).map_err(|error| error.to_string())?;
        read.limits().map(|_| read)
    }

    /// Merges two settings, of which `later` takes precedence.
    pub(super) fn and(self, later: Self) -> Self {
        Self {
            class: later.class.or(self.class),
            memory: later.memory.or(self.memory),
            compute: later.compute.or(self.compute),
        }
    }

    fn limits(&self) -> Result<Limits, String> {
        let named = |field: &str, text: &str| {
            let said = format!("{field} {text:?}");
            move |why: String| format!("{said}: {why}")
        };
        let memory = self.memory.as_ref().map(|text| bytes(text).map_err(named("memory", text)));
        let compute = self.compute.as_ref();
        let compute = compute.map(|text| parts_per_million(text).map_err(named("compute", text)));
        Ok(Limits { memory: memory.transpose()?, compute: compute.transpose()? })
    }
}

/// Amounts that the scheduler counted for a device, in units of its capacities; zero means no
/// limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) memory: Option<Quantity>,
    pub(super) compute: Option<Quantity>,
}

impl Counted {
    /// # Errors
    ///
    /// An amount that is more than nothing and less than programs take for a limit.
    fn limits(self) -> Result<Limits, String> {
        let (memory, compute) = (self.memory, self.compute);
        let limits = Limits {
            memory: memory.filter(|it| !it.is_zero()).map(Quantity::bytes),
            compute: compute.filter(|it| !it.is_zero()).map(Quantity::parts_per_million),
        };
        match limits {
            Limits { memory: Some(0), .. } => Err("less than a byte of memory was counted".into()),
            Limits { compute: Some(..MIN_PART), .. } => {
                Err(format!("less than {} % of the time was counted", percent(MIN_PART.into())))
            }
            limits => Ok(limits),
        }
    }
}

impl Granted {
    /// The class comes from the device class, because the author of a claim must not choose it.
    /// Limits of the device class are upper bounds for those of the claim. An amount that the
    /// scheduler counted is the limit.
    ///
    /// # Errors
    ///
    /// No class, another one, more than the class gives, two limits that differ.
    pub(super) fn new(
        class: &Settings,
        claim: &Settings,
        counted: Counted,
    ) -> Result<Self, String> {
        let name = class.class.ok_or("its device class says neither class rt nor class be")?;
        if let Some(other) = claim.class.filter(|other| *other != name) {
            return Err(format!(
                "class {} asked, its device class is {}",
                other.text(),
                name.text()
            ));
        }
        let (most, asked) = (class.limits()?, claim.limits()?);
        let counted = counted.limits()?;
        let part = |part: u32| format!("{} %", percent(part.into()));
        Ok(Self {
            class: name,
            memory: limit("memory", most.memory, asked.memory, counted.memory, format_bytes)?,
            compute: limit("compute", most.compute, asked.compute, counted.compute, part)?,
        })
    }

    pub(super) fn class(&self) -> Class {
        match self.class {
            Name::Rt => Class::RealTime,
            Name::Be => Class::BestEffort,
        }
    }
}

impl Name {
    fn text(self) -> &'static str {
        match self {
            Self::Rt => "rt",
            Self::Be => "be",
        }
    }
}

fn limit<T: Ord + Copy>(
    what: &str,
    most: Option<T>,
    asked: Option<T>,
    counted: Option<T>,
    shown: impl Fn(T) -> String,
) -> Result<Option<T>, String> {
    if let (Some(asked), Some(counted)) = (asked, counted)
        && asked != counted
    {
        let (asked, counted) = (shown(asked), shown(counted));
        return Err(format!(
            "{what}: {asked} in its parameters, {counted} of the device's capacity"
        ));
    }
    let asked = asked.or(counted);
    match (asked, most) {
        (Some(asked), Some(most)) if asked > most => {
            let (asked, most) = (shown(asked), shown(most));
            Err(format!("{what}: {asked} asked, its device class gives {most} at most"))
        }
        (asked, most) => Ok(asked.or(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(value: Value) -> Settings {
        Settings::read(&value).unwrap()
    }

    #[test]
    fn unknown_fields_and_values_are_refused_by_name() {
        for (value, wanted) in [
            (json!({"class": "be", "memroy": "8GiB"}), "unknown field `memroy`"),
            (json!({"class": "best-effort"}), "unknown variant `best-effort`"),
            (json!({"memoryLow": "2GiB"}), "memoryLow: cannot be kept in a pod"),
            (json!({"memory": "8GiB", "memory_low": "2GiB"}), "memory_low: cannot be kept in a"),
            (json!({"memory": 8}), "invalid type: integer `8`, expected a string"),
            (json!({"memory": "8 furlongs"}), "memory \"8 furlongs\": "),
            (json!({"compute": "0"}), "compute \"0\": not a share"),
            (json!(["rt", null, null]), "parameters must be an object"),
            (json!(null), "parameters must be an object"),
        ] {
            let line = Settings::read(&value).unwrap_err();
            assert!(line.contains(wanted), "{value}: {line}");
        }
    }

    #[test]
    fn the_class_is_the_device_classs_and_its_limits_are_the_most() {
        let class = settings(json!({"class": "be", "memory": "16GiB"}));
        let grant = |claim: Value| Granted::new(&class, &settings(claim), Counted::default());
        assert_eq!(grant(json!({})).unwrap().memory, Some(16 << 30));
        let own = grant(json!({"memory": "8GiB", "compute": "33.4%"})).unwrap();
        assert_eq!((own.memory, own.compute), (Some(8 << 30), Some(334_000)));
        assert_eq!(own.class(), Class::BestEffort);
        let more = grant(json!({"memory": "17GiB"})).unwrap_err();
        assert_eq!(more, "memory: 17 GiB asked, its device class gives 16 GiB at most");
        let other = grant(json!({"class": "rt"})).unwrap_err();
        assert_eq!(other, "class rt asked, its device class is be");
        let none = Granted::new(
            &Settings::default(),
            &settings(json!({"class": "rt"})),
            Counted::default(),
        );
        assert_eq!(none.unwrap_err(), "its device class says neither class rt nor class be");
    }

    #[test]
    fn amount_counted_by_the_scheduler_is_the_limit() {
        let class = settings(json!({"class": "rt"}));
        let counted = |memory: &str, compute: &str| Counted {
            memory: Some(memory.parse().unwrap()),
            compute: Some(compute.parse().unwrap()),
        };
        let grant = |claim: Value, counted| Granted::new(&class, &settings(claim), counted);
        for (memory, compute, why) in [
            ("500m", "0", "less than a byte of memory was counted"),
            ("0", "500m", "less than 1 % of the time was counted"),
        ] {
            assert_eq!(grant(json!({}), counted(memory, compute)).unwrap_err(), why);
        }
        let both = grant(json!({}), counted("8Gi", "30")).unwrap();
        assert_eq!((both.memory, both.compute), (Some(8 << 30), Some(300_000)));
        let none = grant(json!({}), counted("0", "0")).unwrap();
        assert_eq!((none.memory, none.compute), (None, None));
        grant(json!({"compute": "30%"}), counted("0", "30")).unwrap();
        let line = grant(json!({"compute": "50%"}), counted("0", "30")).unwrap_err();
        assert_eq!(line, "compute: 50 % in its parameters, 30 % of the device's capacity");
    }
}
