//! Objects that a message makes and uses, from its body.

use crate::reader::Reader;
use reef_remote_calls::{
    ADD_NODE, Arg, CALLS, Call, CallHost, CopyNode, FindFunction, KernelNode, Kind, Launch, Load,
    SET_NODE, TableCall,
};
use reef_wire::Hot;

/// Lowest number of an object: lower ones are default streams, or none.
const FIRST: u64 = 16;

/// Effect of a message on the session's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It makes an object whose number the client has chosen.
    Makes(u64),
    /// It makes an object unless that is known. The reply begins with the number.
    Finds,
    /// It changes an object.
    Changes(u64),
    /// It changes the device for all contexts.
    Always,
    /// It begins, or ends, a capture.
    BeginsCapture,
    EndsCapture,
    /// It allocates outside of the window: the reply begins with the address.
    Allocates,
    /// It ends an allocation outside of the window.
    Frees(u64),
    /// It tells the address of a global.
    TellsGlobal,
    /// Nothing that lasts.
    Works,
}

/// Objects of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) effect: Effect,
    /// The stream that it works on.
    pub(crate) stream: Option<u64>,
    pub(crate) ids: Vec<u64>,
}

impl Uses {
    /// Reads a message. `None` for one that leaves nothing, or that cannot be.
    pub(crate) fn of(op: u16, body: &[u8], context: u64) -> Option<Self> {
        match op {
            TableCall::OP => table(body, context),
            Launch::OP => {
                let launch = Launch::split(body).ok()?.0;
                Some(works(launch.stream.get(), &[launch.function.get()]))
            }
            CallHost::OP => Some(works(CallHost::split(body).ok()?.0.stream.get(), &[])),
            Load::OP => {
                let load = Load::split(body).ok()?.0;
                Some(Self { effect: Effect::Makes(load.id.get()), stream: None, ids: Vec::new() })
            }
            FindFunction::OP => {
                let ids = vec![FindFunction::split(body).ok()?.0.of.get()];
                Some(Self { effect: Effect::Finds, stream: None, ids })
            }
            KernelNode::OP => {
                let (node, rest) = KernelNode::split(body).ok()?;
                let place = (node.what.get(), node.node.get(), node.of.get());
                self::node(place, node.function.get(), node.after.get(), rest)
            }
            CopyNode::OP => {
                let (node, rest) = CopyNode::split(body).ok()?;
                let place = (node.what.get(), node.node.get(), node.of.get());
                self::node(place, node.context.get(), node.after.get(), rest)
            }
            _ => None,
        }
    }
}

/// Kind of the object that a message makes.
pub(crate) fn made_kind(op: u16, body: &[u8]) -> Option<Kind> {
    match op {
        TableCall::OP => {
            let spec = CALLS.get(usize::from(TableCall::split(body).ok()?.0.call.get()))?;
            spec.args.iter().find_map(|arg| match arg {
                Arg::New(kind) | Arg::Known(kind) => Some(*kind),
                _ => None,
            })
        }
        Load::OP => {
            let is_library = Load::split(body).ok()?.0.is_library.get() != 0;
            Some(if is_library { Kind::Library } else { Kind::Module })
        }
        _ => None,
    }
}

fn works(stream: u64, others: &[u64]) -> Uses {
    let mut ids = others.to_vec();
    if stream >= FIRST {
        ids.push(stream);
    }
    Uses { effect: Effect::Works, stream: Some(stream), ids }
}

/// Of a node: what is done, the node and what it is of; what it uses; and the nodes before it.
fn node(place: (u32, u64, u64), uses: u64, after: u32, rest: &[u8]) -> Option<Uses> {
    let (what, node, of) = place;
    let mut rest = Reader(rest);
    let mut ids = vec![uses];
    for _ in 0..after {
        ids.push(rest.word().ok()?);
    }
    let effect = match what {
        ADD_NODE => {
            ids.push(of);
            Effect::Makes(node)
        }
        SET_NODE => Effect::Changes(node),
        _ => {
            ids.push(node);
            Effect::Changes(of)
        }
    };
    Some(Uses { effect, stream: None, ids })
}

fn table(body: &[u8], context: u64) -> Option<Uses> {
    let (head, rest) = TableCall::split(body).ok()?;
    let spec = CALLS.get(usize::from(head.call.get()))?;
    let is = |call: Call| call as u16 == head.call.get();
    let mut rest = Reader(rest);
    let (mut ids, mut stream, mut effect) = (Vec::new(), None, Effect::Works);
    let mut words = Vec::new();
    for arg in spec.args {
        match *arg {
            Arg::Word32 | Arg::Word64 | Arg::Out(_) => words.push(rest.word().ok()?),
            Arg::Handle(kind) | Arg::End(kind) => {
                let id = rest.word().ok()?;
                words.push(id);
                if kind == Kind::Stream {
                    stream = Some(id);
                }
                if id >= FIRST {
                    ids.push(id);
                }
            }
            Arg::Handles(..) => {
                let list = rest.bytes().ok()?.chunks_exact(8);
                ids.extend(list.map(|id| u64::from_le_bytes(id.try_into().expect("8 bytes"))));
            }
            Arg::New(_) => effect = Effect::Makes(rest.word().ok()?),
            Arg::Known(_) => {
                effect = Effect::Finds;
                rest.word().ok()?;
            }
            Arg::In(_) | Arg::Text => drop(rest.bytes().ok()?),
            Arg::Null => {}
        }
    }
    let first = |at: usize| words.get(at).copied().unwrap_or(0);
    if is(Call::cuStreamBeginCapture_v2) {
        effect = Effect::BeginsCapture;
    } else if is(Call::cuStreamEndCapture) {
        effect = Effect::EndsCapture;
    } else if is(Call::cuMemAllocAsync)
        || is(Call::cuMemAllocFromPoolAsync)
        || is(Call::cuMemAlloc_v2)
        || is(Call::cuMemAllocPitch_v2)
    {
        effect = Effect::Allocates;
    } else if is(Call::cuMemFreeAsync) || is(Call::cuMemFree_v2) {
        effect = Effect::Frees(first(0));
    } else if is(Call::cuModuleGetGlobal_v2) || is(Call::cuLibraryGetGlobal) {
        effect = Effect::TellsGlobal;
    } else if is(Call::cuDevicePrimaryCtxRetain)
        || is(Call::cuStreamGetCtx)
        || is(Call::cuStreamGetDevice)
    {
        effect = Effect::Works; // primary contexts are noted by their counts
    } else if is(Call::cuDevicePrimaryCtxSetFlags)
        || is(Call::cuDevicePrimaryCtxSetFlags_v2)
        || is(Call::cuDeviceSetMemPool)
    {
        effect = Effect::Always;
    } else if is(Call::cuCtxSetLimit)
        || is(Call::cuCtxSetCacheConfig)
        || is(Call::cuCtxSetSharedMemConfig)
    {
        effect = Effect::Changes(context);
    } else if is(Call::cuFuncSetAttribute)
        || is(Call::cuFuncSetCacheConfig)
        || is(Call::cuFuncSetSharedMemConfig)
        || is(Call::cuKernelSetAttribute)
        || is(Call::cuKernelSetCacheConfig)
        || is(Call::cuMemPoolSetAttribute)
        || is(Call::cuGraphAddDependencies)
        || is(Call::cuGraphExecChildGraphNodeSetParams)
        || is(Call::cuGraphExecUpdate_v2)
        || is(Call::cuGraphMemsetNodeSetParams)
        || is(Call::cuGraphExecMemsetNodeSetParams)
        || is(Call::cuGraphDestroyNode)
    {
        effect = Effect::Changes(ids.first().copied().unwrap_or(0));
    }
    if effect == Effect::Works && stream.is_none() {
        return None;
    }
    Some(Uses { effect, stream, ids })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_wire::hot_bytes;
    use reef_wire::little_endian::{U16, U32};

    fn message(call: Call, words: &[u64]) -> Vec<u8> {
        let reserved = (U16::new(0), U32::new(0));
        let head =
            TableCall { call: U16::new(call as u16), reserved: reserved.0, reserved2: reserved.1 };
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        [hot_bytes(&head), &words].concat()
    }

    fn of(call: Call, words: &[u64]) -> Option<Uses> {
        Uses::of(TableCall::OP, &message(call, words), 99)
    }

    #[test]
    fn effects_of_calls_are_told_apart() {
        let effect = |call, words: &[u64]| of(call, words).map(|uses| uses.effect);
        assert_eq!(effect(Call::cuStreamCreate, &[32, 0]), Some(Effect::Makes(32)));
        assert_eq!(effect(Call::cuKernelGetFunction, &[32, 48]), Some(Effect::Finds));
        assert_eq!(effect(Call::cuCtxSetLimit, &[0, 5]), Some(Effect::Changes(99)));
        assert_eq!(effect(Call::cuFuncSetAttribute, &[64, 1, 2]), Some(Effect::Changes(64)));
        assert_eq!(effect(Call::cuMemFreeAsync, &[4096, 1]), Some(Effect::Frees(4096)));
        assert_eq!(effect(Call::cuCtxSynchronize, &[]), None);
        assert_eq!(effect(Call::cuStreamCreate, &[]), None, "it is cut short");
    }

    #[test]
    fn stream_and_objects_of_a_call_are_found() {
        let uses = of(Call::cuStreamWaitEvent, &[32, 48, 0]).unwrap();
        assert_eq!((uses.stream, uses.ids), (Some(32), vec![32, 48]));
        let uses = of(Call::cuGraphAddEmptyNode, &[96, 80, 16, 64, 48, 2]).unwrap();
        assert_eq!((uses.effect, uses.ids), (Effect::Makes(96), vec![80, 64, 48]));
        let uses = of(Call::cuEventRecord, &[48, 1]).unwrap();
        assert_eq!((uses.stream, uses.ids), (Some(1), vec![48]));
    }
}
