//! Plan of an operation, for a kernel of kernels/tensor.cu.

use crate::operators::params::{Divisor, Params};
use reef_op::tensor::{Element, View};

/// Instead of a place: there is none.
pub(super) const NOWHERE: u32 = u32::MAX;

/// `Job` in kernels/plan.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct TensorParams {
    pub(super) output: u64,
    pub(super) plan: u64,
    pub(super) count: u32,
    pub(super) element: u32,
    pub(super) words: u32,
    pub(super) at: u32,
}

// SAFETY: fields of 8 bytes stand before four of 4.
unsafe impl Params for TensorParams {}

/// Words for a kernel, in the order in which it reads them.
#[derive(Debug, Default)]
pub(super) struct Plan(Vec<u32>);

impl Plan {
    /// Appends words.
    pub(super) fn words(&mut self, words: &[u32]) {
        self.0.extend_from_slice(words);
    }

    /// Number of words, which is the place of the next one.
    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Puts a word in the place of one that is there.
    pub(super) fn set(&mut self, at: u32, word: u32) {
        self.0[at as usize] = word;
    }

    /// Appends an input: `Input` in kernels/plan.h.
    pub(super) fn input(&mut self, address: u64, element: Element) {
        self.words(&[address as u32, (address >> 32) as u32, element as u32, 0]);
    }

    /// Appends a view with its axes merged, and says where it is; 0 if its elements are in their
    /// own order.
    pub(super) fn view(&mut self, view: &View) -> u32 {
        let view = if view.is_empty() { View::default() } else { view.merged() };
        if view.dims.len() == 1 && view.strides[0] == 1 {
            return 0;
        }
        let at = self.len();
        self.words(&[view.dims.len() as u32]);
        for (&size, &stride) in view.dims.iter().zip(&view.strides).rev() {
            let [factor, shift] = Divisor::new(size.max(1) as u32).words();
            self.words(&[factor, shift, size as u32, stride as u32]);
        }
        at
    }

    /// A view of one axis as its stride, any other as words of the plan and where those are.
    pub(super) fn step_or_view(&mut self, view: &View) -> (u32, u32) {
        let view = view.merged();
        match view.strides[..] {
            [] => (0, 0),
            [step] => (step as u32, 0),
            _ => (0, self.view(&view)),
        }
    }

    /// As bytes of the device's memory.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_in_their_own_order_take_no_words() {
        let mut plan = Plan::default();
        plan.words(&[7]);
        assert_eq!(plan.view(&View::dense(&[3, 4])), 0);
        assert_eq!(plan.len(), 1);
        assert_eq!(plan.view(&View::dense(&[3, 4]).axes(&[1, 0])), 1);
        assert_eq!(plan.len(), 1 + 1 + 2 * 4);
        assert_eq!(plan.view(&View::default()), 10, "one element has a view of no axes");
    }

    /// Sizes next to an axis of no elements may be any: a divisor by one of 2³² would be one by 0.
    #[test]
    fn view_of_no_elements_has_no_divisors() {
        let mut plan = Plan::default();
        plan.words(&[0]);
        let empty = View { dims: vec![0, 1 << 32], strides: vec![1, 1] };
        assert_eq!((plan.view(&empty), plan.len()), (1, 2));
    }

    #[test]
    fn elements_have_the_numbers_of_the_kernels() {
        let all = [Element::F32, Element::F64, Element::I64, Element::U64, Element::Bool];
        assert_eq!(all.map(|element| element as u32), [0, 3, 4, 8, 12]);
        assert_eq!(size_of::<TensorParams>(), 32);
    }
}
