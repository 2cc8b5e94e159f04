//! Classes of storages that formulas want alike, and those of them that lie channels last.

use super::order::image;
use super::steps::Needs;
use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use std::collections::{HashMap, HashSet};

/// Storages that are to lie channels last, with the sizes of each as it is now.
pub(super) fn turned(steps: &[TensorStep], outputs: &[Port]) -> HashMap<usize, [usize; 4]> {
    let mut open = HashMap::new();
    for step in steps {
        open.extend(image(&step.op.output.dims).map(|dims| (step.writes, dims)));
    }
    outputs.iter().for_each(|port| _ = open.remove(&port.storage));
    let needs: Vec<Needs> = steps.iter().map(Needs::of).collect();
    let ends: HashSet<usize> = outputs.iter().map(|port| port.storage).collect();
    for (step, needs) in steps.iter().zip(&needs) {
        needs.fixed.iter().for_each(|storage| _ = open.remove(storage));
        // A step that fills an output stays, so that there is nothing to gain.
        if ends.contains(&step.writes) {
            needs.turned.iter().for_each(|storage| _ = open.remove(storage));
        }
        // A reader that sees something else than an image of these sizes doesn't know its
        // channels.
        for (storage, spec) in step.reads.iter().zip(&step.op.inputs) {
            if open.get(storage).is_some_and(|dims| spec.dims[..] != dims[..]) {
                open.remove(storage);
            }
        }
    }
    let links = steps.iter().zip(&needs);
    let links: Vec<[usize; 2]> = links
        .flat_map(|(step, needs)| needs.alike.iter().map(|&read| [read, step.writes]))
        .collect();
    // There and back, so that chains are gone through in a few rounds, however long they are.
    let there_and_back = || links.iter().chain(links.iter().rev());
    loop {
        let count = open.len();
        for [a, b] in there_and_back() {
            if open.contains_key(a) != open.contains_key(b) {
                [a, b].into_iter().for_each(|one| _ = open.remove(one));
            }
        }
        if open.len() == count {
            break;
        }
    }
    let gains = needs.iter().filter_map(|needs| needs.turned);
    let mut wanted: HashSet<usize> = gains.filter(|storage| open.contains_key(storage)).collect();
    loop {
        let count = wanted.len();
        for link in there_and_back() {
            if link.iter().any(|one| wanted.contains(one)) && open.contains_key(&link[0]) {
                wanted.extend(link);
            }
        }
        if wanted.len() == count {
            break;
        }
    }
    open.retain(|storage, _| wanted.contains(storage));
    open
}
