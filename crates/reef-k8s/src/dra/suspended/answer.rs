//! The daemon's list of suspended programs, and what of it claims give back.
//!
//! `GET /reef/suspended` answers `{"suspended": [{"held": [{"device": UUID, "bytes": N}],
//! "for_memory": BOOL, "limit_id": TEXT, …}]}`, where UUID has 32 hexadecimal digits and the
//! limit's id is the UID of the claim.

use super::spare::SpareMemory;
use crate::dra::checkpoint::Claims;
use crate::dra::config::{ClaimsConfig, SuspendedMemory};
use reef_guest::page::Class;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
struct Answer {
    suspended: Vec<Program>,
}

#[derive(Debug, Deserialize)]
struct Program {
    held: Vec<Held>,
    #[serde(default)]
    for_memory: bool,
    limit_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Held {
    device: String,
    bytes: u64,
}

/// Returns the bytes that claims give back by this answer, and a line on a part of it that can't
/// be. Such a part counts as nothing.
///
/// # Errors
///
/// It isn't the daemon's list.
pub(in crate::dra) fn given_back(
    text: &str,
    claims: &Claims,
    config: &ClaimsConfig,
) -> Result<(SpareMemory, Option<String>), String> {
    let answer: Answer = serde_json::from_str(text)
        .map_err(|error| format!("not a list of suspended programs: {error}"))?;
    let is_all = config.suspended == SuspendedMemory::GiveBackAll;
    let programs = answer.suspended.iter().filter(|program| is_all || !program.for_memory);
    let most = config.memory.unwrap_or(0);
    let (mut sums, mut odd) = (BTreeMap::<(&str, &str), (u64, u64)>::new(), None);
    for program in programs {
        let Some((uid, claim)) = program.limit_id.as_ref().and_then(|id| claims.get_key_value(id))
        else {
            continue;
        };
        if claim.granted.class() != Class::BestEffort {
            continue;
        }
        for held in &program.held {
            let Held { device, bytes } = held;
            let own = claim.devices.iter().find(|own| digits(&own.device) == *device);
            match own {
                Some(own) if *bytes <= most => {
                    let (sum, counted) = sums.entry((uid, &own.device)).or_default();
                    (*sum, *counted) = (sum.saturating_add(*bytes), own.counted);
                }
                Some(_) => odd = Some(format!("{bytes} bytes on a GPU of {most} (claim {uid})")),
                None => odd = Some(format!("claim {uid} has no device {device:?}")),
            }
        }
    }
    let mut all = SpareMemory::new();
    for ((_, device), (sum, counted)) in sums {
        let bytes = all.entry(device.to_owned()).or_default();
        *bytes = bytes.saturating_add(sum.min(counted));
    }
    all.retain(|_, bytes| *bytes > 0);
    Ok((all, odd))
}

/// Digits of a device's name, `gpu-` and a UUID.
fn digits(device: &str) -> String {
    device.trim_start_matches("gpu-").replace('-', "")
}
