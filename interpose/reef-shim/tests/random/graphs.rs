//! Graphs of random programs: captured, and built node by node.

use super::program::Update;
use super::thread::Thread;
use crate::common::graph::Graph;
use crate::common::{self, call};

impl Thread {
    pub(super) fn graph(&mut self, stream: usize, launches: u64) {
        let (driver, on, mut exec) = (self.driver, self.streams[stream], 0_usize);
        let graph = self.capture(stream, 0..launches);
        self.note(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)));
        self.note(call!(driver, cuGraphLaunch(exec, on)));
        self.note(call!(driver, cuGraphLaunch(exec, on)));
        self.note(call!(driver, cuGraphDestroy(graph)));
        self.note(call!(driver, cuStreamSynchronize(on)));
        self.note(call!(driver, cuGraphExecDestroy(exec)));
    }

    /// Launches with these values, as a graph.
    fn capture(&mut self, stream: usize, values: std::ops::Range<u64>) -> usize {
        let (driver, on, word) = (self.driver, self.streams[stream], self.words.of[stream]);
        let mut graph = 0_usize;
        self.note(call!(driver, cuStreamBeginCapture_v2(on, 2)));
        values.for_each(|value| self.launch(self.mix, stream, word, value));
        self.note(call!(driver, cuStreamEndCapture(on, &raw mut graph)));
        graph
    }

    /// Half of the kernels, a graph of kernels, the other half.
    pub(super) fn built(
        &mut self,
        stream: usize,
        [kernels, inner]: [u64; 2],
        captured: bool,
        update: Update,
    ) {
        let (driver, on, word) = (self.driver, self.streams[stream], self.words.of[stream]);
        let mut make = |first: u64| {
            let graph = Graph::new(driver, self.mix);
            let mut child = Graph::new(driver, self.mix);
            if captured {
                child.handle = self.capture(stream, first..first + inner);
            } else {
                drop(child.chain(&[], word, first..first + inner));
            }
            let mut nodes = graph.chain(&[], word, first..first + kernels / 2);
            let middle = graph.child(nodes.last().map_or(&[], std::slice::from_ref), &child);
            nodes.extend(graph.chain(&[middle], word, first..first + kernels - kernels / 2));
            (graph, child, middle, nodes)
        };
        let (graph, _, middle, nodes) = make(0);
        let (other, child, _, _) = make(1000);
        let exec = graph.instantiate();
        self.note(call!(driver, cuGraphLaunch(exec, on)));
        let (mut result, mut clone, mut variant) = ([0_usize; 3], 0_usize, 0_usize);
        let code = match update {
            Update::Kernel => graph.set(exec, nodes[nodes.len() / 2], word, 77),
            Update::Child => {
                call!(driver, cuGraphExecChildGraphNodeSetParams(exec, middle, child.handle))
            }
            Update::Whole => {
                call!(driver, cuGraphExecUpdate_v2(exec, other.handle, result.as_mut_ptr()))
            }
            Update::Odd => {
                call!(driver, cuGraphExecUpdate_v2(exec, child.handle, result.as_mut_ptr()))
            }
            Update::Clone => call!(driver, cuGraphClone(&raw mut clone, graph.handle)),
        };
        self.codes.extend([code, result[0] as u32, graph.nodes() as u32]);
        self.note(call!(driver, cuGraphLaunch(exec, on)));
        if clone != 0 {
            let (clone, mut node) = (Graph { handle: clone, ..graph }, 0_usize);
            self.note(call!(driver, cuGraphNodeFindInClone(&raw mut node, nodes[0], clone.handle)));
            variant = clone.instantiate();
            self.note(clone.set(variant, node, word, 78));
            self.note(call!(driver, cuGraphLaunch(variant, on)));
            self.note(call!(driver, cuGraphDestroy(clone.handle)));
        }
        self.note(call!(driver, cuStreamSynchronize(on)));
        self.note(call!(driver, cuGraphExecDestroy(exec)));
        self.note(call!(driver, cuGraphExecDestroy(variant)));
        self.note(call!(driver, cuGraphDestroy(graph.handle)));
    }
}
