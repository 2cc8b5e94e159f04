//! Puts normalisation, residual and activation into the operation before them, where no other value
//! is made from what is in between; a value times its own sigmoid is one activation; what isn't
//! needed for the output goes.

use super::value::{Affine, Conv, Id, Make, Net, Value};
use crate::memory::budget::Exhausted;
use crate::memory::ledger::Ledger;
use reef_op::Function;

/// Results of fusing: for each value, the one that it became or is part of.
struct Fused<'l> {
    ledger: &'l Ledger,
    /// `None` where a convolution has moved behind what it adds.
    values: Vec<Option<Value>>,
    /// Number of uses of each value that are still to come.
    uses: Vec<usize>,
}

impl Net {
    /// The network up to `output` with fewer, larger operations, and where `output` is in it.
    ///
    /// No [`Make::Relu`] and no [`Make::Add`] is left.
    pub(crate) fn fuse(self, output: Id, ledger: &Ledger) -> Result<(Self, Id), Exhausted> {
        let uses = self.uses(output);
        let len = self.values.len();
        let room = (Vec::with_capacity(len), Vec::with_capacity(len));
        let mut fused = Fused { ledger, values: room.0, uses: room.1 };
        let mut now: Vec<Id> = Vec::with_capacity(len);
        for (value, uses) in self.values.into_iter().zip(uses) {
            let id = if uses == 0 { Id::MAX } else { fused.append(value, uses, &now)? };
            now.push(id);
        }
        Ok(fused.without_gaps(now[output]))
    }
}

impl Fused<'_> {
    /// Takes over a value that is used so often; `now` says where earlier ones are.
    fn append(&mut self, value: Value, uses: usize, now: &[Id]) -> Result<Id, Exhausted> {
        let Value { name, shape, make } = value;
        let new = |make| Value { name, shape, make };
        Ok(match make {
            Make::Relu { x } => return self.relu(now[x], uses, new),
            Make::Affine(affine) => self.affine(Affine { x: now[affine.x], ..affine }, uses, new),
            Make::Add { a, b } => return self.add([now[a], now[b]], uses, new),
            Make::Conv(conv) => {
                let residual = conv.residual.map(|id| now[id]);
                self.push(new(Make::Conv(Conv { x: now[conv.x], residual, ..conv })), uses)
            }
            Make::Pool { x, kind, window } => {
                self.push(new(Make::Pool { x: now[x], kind, window }), uses)
            }
            Make::Activate { x, function } => self.activate(now[x], function, uses, new),
            Make::Multiply { x, factor } => self.multiply(now[x], now[factor], uses, new),
            Make::Concat { mut parts } => {
                parts.iter_mut().for_each(|id| *id = now[*id]);
                self.push(new(Make::Concat { parts }), uses)
            }
            Make::Input => self.push(new(Make::Input), uses),
        })
    }

    fn push(&mut self, value: Value, uses: usize) -> Id {
        self.values.push(Some(value));
        self.uses.push(uses);
        self.values.len() - 1
    }

    /// The value at `x`, if its next use is its only one.
    fn only_used_next(&mut self, x: Id) -> Option<&mut Make> {
        if self.uses[x] > 1 {
            return None;
        }
        self.values[x].as_mut().map(|value| &mut value.make)
    }

    fn affine(&mut self, affine: Affine, uses: usize, new: impl FnOnce(Make) -> Value) -> Id {
        let x = affine.x;
        match self.only_used_next(x) {
            Some(Make::Conv(conv)) if conv.is_plain() => conv.then(&affine),
            Some(Make::Affine(before)) if !before.relu => before.then(&affine),
            _ => return self.push(new(Make::Affine(affine)), uses),
        }
        self.uses[x] = uses;
        x
    }

    fn relu(
        &mut self,
        x: Id,
        uses: usize,
        new: impl FnOnce(Make) -> Value,
    ) -> Result<Id, Exhausted> {
        match self.only_used_next(x) {
            Some(
                Make::Conv(Conv { relu, function: None, .. }) | Make::Affine(Affine { relu, .. }),
            ) => *relu = true,
            _ => {
                let value = new(Make::Input);
                let same = Affine::uniform(x, value.shape[1], 1.0, 0.0, self.ledger)?;
                let make = Make::Affine(Affine { relu: true, ..same });
                return Ok(self.push(Value { make, ..value }, uses));
            }
        }
        self.uses[x] = uses;
        Ok(x)
    }

    fn activate(
        &mut self,
        x: Id,
        function: Function,
        uses: usize,
        new: impl FnOnce(Make) -> Value,
    ) -> Id {
        let Some(Make::Conv(Conv { function: after @ None, .. })) = self.only_used_next(x) else {
            return self.push(new(Make::Activate { x, function }), uses);
        };
        *after = Some(function);
        self.uses[x] = uses;
        x
    }

    fn multiply(&mut self, x: Id, factor: Id, uses: usize, new: impl FnOnce(Make) -> Value) -> Id {
        for (x, gate) in [(x, factor), (factor, x)] {
            let gating = match self.only_used_next(gate) {
                Some(Make::Activate { x: gated, function }) if *gated == x => function.gating(),
                _ => None,
            };
            if let Some(function) = gating {
                self.values[gate] = None;
                self.uses[x] -= 1;
                return self.activate(x, function, uses, new);
            }
        }
        self.push(new(Make::Multiply { x, factor }), uses)
    }

    /// The later of the two that is a convolution takes the other as its residual.
    fn add(
        &mut self,
        operands: [Id; 2],
        uses: usize,
        new: impl FnOnce(Make) -> Value,
    ) -> Result<Id, Exhausted> {
        let [a, b] = operands;
        let (late, early) = (a.max(b), a.min(b));
        for (conv, residual) in [(late, early), (early, late)] {
            if let Some((name, shape, conv)) = self.take_plain_conv(conv) {
                let make = Make::Conv(Conv { residual: Some(residual), ..conv });
                return Ok(self.push(Value { name, shape, make }, uses));
            }
        }
        let value = new(Make::Input);
        let same = Conv::identity(late, value.shape[1], self.ledger)?;
        let make = Make::Conv(Conv { residual: Some(early), ..same });
        Ok(self.push(Value { make, ..value }, uses))
    }

    /// Takes out a convolution that is only used next, and whose sums nothing happens to.
    fn take_plain_conv(&mut self, id: Id) -> Option<(String, [usize; 4], Conv)> {
        if self.uses[id] > 1 {
            return None;
        }
        match self.values[id].take() {
            Some(Value { name, shape, make: Make::Conv(conv) }) if conv.is_plain() => {
                Some((name, shape, conv))
            }
            other => {
                self.values[id] = other;
                None
            }
        }
    }

    fn without_gaps(self, output: Id) -> (Net, Id) {
        let mut now = Vec::with_capacity(self.values.len());
        let mut kept = 0;
        let keep = |value: Option<Value>| {
            now.push(if value.is_some() { kept } else { Id::MAX });
            let mut value = value?;
            value.make.renumber(&now);
            kept += 1;
            Some(value)
        };
        let values = self.values.into_iter().filter_map(keep).collect();
        (Net { values }, now[output])
    }
}

impl Make {
    fn renumber(&mut self, now: &[Id]) {
        let go = |id: &mut Id| *id = now[*id];
        match self {
            Self::Input => {}
            Self::Conv(conv) => [&mut conv.x].into_iter().chain(&mut conv.residual).for_each(go),
            Self::Affine(Affine { x, .. })
            | Self::Pool { x, .. }
            | Self::Relu { x }
            | Self::Activate { x, .. } => go(x),
            Self::Add { a, b } | Self::Multiply { x: a, factor: b } => {
                [a, b].into_iter().for_each(go);
            }
            Self::Concat { parts } => parts.iter_mut().for_each(go),
        }
    }
}
