//! Windows that slide over one to three axes, as a node describes them.

use crate::onnx::fault::{Result, few};
use crate::onnx::general::call::Call;
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::MAX_SIZE;

/// A window; each list has one number for each axis.
#[derive(Debug, Clone)]
pub(in crate::onnx::general::operators) struct Sliding {
    pub(in crate::onnx::general::operators) size: Vec<usize>,
    pub(in crate::onnx::general::operators) stride: Vec<usize>,
    pub(in crate::onnx::general::operators) dilation: Vec<usize>,
    pub(in crate::onnx::general::operators) before: Vec<i64>,
    pub(in crate::onnx::general::operators) after: Vec<i64>,
    /// Number of windows on each axis.
    pub(in crate::onnx::general::operators) count: Vec<usize>,
}

impl Sliding {
    /// The window of `node` over axes of these sizes.
    pub(in crate::onnx::general::operators) fn of(
        call: &Call<'_>,
        window: Vec<usize>,
        over: &[usize],
    ) -> Result<Self> {
        let [stride, dilation] =
            ["strides", "dilations"].map(|name| factors(call, name, over.len()));
        let (stride, dilation) = (stride?, dilation?);
        let round_up = call.flag("ceil_mode", false)?;
        if window.len() != over.len() || over.is_empty() || window.contains(&0) {
            return Err(format!("a window of {window:?} over {over:?}"));
        }
        let mut made =
            Self { size: window, stride, dilation, before: vec![], after: vec![], count: vec![] };
        made.pad(call, over)?;
        for (k, &n) in over.iter().enumerate() {
            let count = made.counted(k, n, round_up)?;
            made.count.push(count);
        }
        elements(&made.count)?;
        Ok(made)
    }

    fn pad(&mut self, call: &Call<'_>, over: &[usize]) -> Result<()> {
        let rank = over.len();
        let pads = call.ints("pads")?;
        (self.before, self.after) = (vec![0; rank], vec![0; rank]);
        let auto = call.text("auto_pad", "NOTSET")?;
        match (auto, pads) {
            ("NOTSET" | "", Some(pads)) if pads.len() == 2 * rank => {
                let fits = |pad: &i64| pad.unsigned_abs() <= MAX_SIZE as u64;
                if !pads.iter().all(fits) {
                    return Err(format!("attribute pads = {}", few(pads)));
                }
                (self.before, self.after) = (pads[..rank].to_vec(), pads[rank..].to_vec());
            }
            ("NOTSET" | "", Some(pads)) => {
                return Err(format!(
                    "attribute pads must have {} sizes, got {}",
                    2 * rank,
                    few(pads)
                ));
            }
            ("NOTSET" | "" | "VALID", _) => {}
            ("SAME_UPPER" | "SAME_LOWER", _) => {
                for (k, &n) in over.iter().enumerate() {
                    let last = n.div_ceil(self.stride[k]).saturating_sub(1) * self.stride[k];
                    let zeros = last.saturating_add(self.reach(k)).saturating_sub(n);
                    if zeros > MAX_SIZE {
                        let size = &self.size;
                        return Err(format!("a window of {size:?} over {n} elements of axis {k}"));
                    }
                    let zeros = zeros as i64;
                    let (less, more) = (zeros / 2, zeros - zeros / 2);
                    let lower = auto == "SAME_LOWER";
                    (self.before[k], self.after[k]) =
                        if lower { (more, less) } else { (less, more) };
                }
            }
            (other, _) => return Err(format!("attribute auto_pad = {other:?}")),
        }
        Ok(())
    }

    /// From the first tap to the last, both included.
    pub(in crate::onnx::general::operators) fn reach(&self, k: usize) -> usize {
        (self.size[k] - 1).saturating_mul(self.dilation[k]).saturating_add(1)
    }

    /// Windows along an axis of `n`.
    fn counted(&self, k: usize, n: usize, round_up: bool) -> Result<usize> {
        let padded = n as i64 + self.before[k] + self.after[k];
        let steps = padded - self.reach(k).min(1 << 60) as i64;
        let Ok(steps) = usize::try_from(steps) else {
            return Err(format!("a window of {:?} over {padded} elements of axis {k}", self.size));
        };
        if !round_up {
            return Ok(steps / self.stride[k] + 1);
        }
        let count = steps.div_ceil(self.stride[k]) + 1;
        // The last window starts on the input, or on the padding before it.
        let starts_behind = ((count - 1) * self.stride[k]) as i64 >= n as i64 + self.before[k];
        Ok(if starts_behind { count - 1 } else { count })
    }

    /// Elements that windows reach over behind an axis of `n`: padding, and more where counts were
    /// rounded up.
    pub(in crate::onnx::general::operators) fn behind(&self, k: usize, n: usize) -> i64 {
        let end = self.count[k].saturating_sub(1) * self.stride[k] + self.reach(k);
        (end as i64 - n as i64 - self.before[k]).max(self.after[k])
    }
}

/// A tensor whose channels are its last axis, as one whose second axis they are.
pub(in crate::onnx::general::operators) fn channels_first(
    b: &mut Builder<'_>,
    x: &Value,
) -> Result<Value> {
    let last = x.rank().checked_sub(1).filter(|&last| last > 1);
    let last = last.ok_or_else(|| format!("a window over {}", x.spec))?;
    let order: Vec<usize> = [0, last].into_iter().chain(1..last).collect();
    b.transpose(x, &order)
}

/// The inverse of [`channels_first`].
pub(in crate::onnx::general::operators) fn channels_last(
    b: &mut Builder<'_>,
    x: &Value,
) -> Result<Value> {
    let order: Vec<usize> = [0].into_iter().chain(2..x.rank()).chain([1]).collect();
    b.transpose(x, &order)
}

/// A positive number for each axis; 1 if the node doesn't say.
pub(in crate::onnx::general::operators) fn factors(
    call: &Call<'_>,
    name: &'static str,
    rank: usize,
) -> Result<Vec<usize>> {
    let Some(list) = call.ints(name)? else { return Ok(vec![1; rank]) };
    let wrong = || format!("attribute {name} = {} for {rank} axes", few(list));
    if list.len() != rank {
        return Err(wrong());
    }
    let factors = list.iter().map(|&factor| size(factor)).collect::<Result<Vec<_>>>()?;
    let sound = factors.iter().all(|&factor| (1..=1 << 24).contains(&factor));
    if sound { Ok(factors) } else { Err(wrong()) }
}

/// Sizes of a window in an attribute.
pub(in crate::onnx::general::operators) fn kernel(
    call: &Call<'_>,
    name: &'static str,
    rank: usize,
) -> Result<Option<Vec<usize>>> {
    let Some(list) = call.ints(name)? else { return Ok(None) };
    if list.len() != rank {
        return Err(format!("attribute {name} must have {rank} sizes, got {}", few(list)));
    }
    let sizes = list.iter().map(|&number| size(number)).collect::<Result<Vec<_>>>()?;
    elements(&sizes).map(|_| Some(sizes))
}
