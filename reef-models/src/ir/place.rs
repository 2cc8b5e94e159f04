//! Finds values that are made in place, within the storage of a concatenation.
//!
//! A concatenation is a storage, and each of its parts a range of channels in it. DenseNet's grow:
//! each one is the one before and some more, so the last and longest gets the storage and the
//! others are the beginning of it. A value has one place; where it can't be the wanted one, it is
//! copied there.

use super::value::{Id, Make, Net};

/// A range of channels in the storage of a concatenation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Home {
    /// The concatenation whose storage it is.
    pub(super) concat: Id,
    /// The first channel.
    pub(super) first: usize,
}

/// Place of each value within the storage of a concatenation, if it has one.
pub(super) type Homes = Vec<Option<Home>>;

impl Net {
    /// Finds the homes of all values on the way to `output`.
    pub(super) fn homes(&self, output: Id) -> Homes {
        let mut homes = vec![None; self.values.len()];
        let free = self.may_live_anywhere(output);
        for concat in (0..self.values.len()).rev() {
            if matches!(self.values[concat].make, Make::Concat { .. }) && homes[concat].is_none() {
                let home = self.as_a_beginning(concat, &homes);
                self.assign(concat, home.unwrap_or(Home { concat, first: 0 }), &free, &mut homes);
            }
        }
        self.move_out_of_operands_storage(&mut homes);
        homes
    }

    /// No step reads and writes one storage: a value made from one that lives there lives
    /// elsewhere.
    fn move_out_of_operands_storage(&self, homes: &mut Homes) {
        for (id, value) in self.values.iter().enumerate() {
            let Some(Home { concat, .. }) = homes[id] else { continue };
            let lives_there =
                |operand: Id| homes[operand].is_some_and(|home| home.concat == concat);
            let is_in_place = value.make.operands().any(lives_there);
            if is_in_place && !matches!(value.make, Make::Concat { .. }) {
                homes[id] = None;
            }
        }
    }

    /// Returns for each value whether it may be made among channels of others. One that is added,
    /// or that something is added to, needs a storage of its own, as both must be laid out alike.
    fn may_live_anywhere(&self, output: Id) -> Vec<bool> {
        let mut free: Vec<bool> =
            self.values.iter().map(|value| !matches!(value.make, Make::Input)).collect();
        free[output] = false;
        for (id, value) in self.values.iter().enumerate() {
            if let Make::Conv(conv) = &value.make
                && let Some(residual) = conv.residual
            {
                (free[id], free[residual]) = (false, false);
            }
        }
        free
    }

    /// The home of a concatenation whose parts already lie one behind the other.
    fn as_a_beginning(&self, concat: Id, homes: &Homes) -> Option<Home> {
        let Make::Concat { parts } = &self.values[concat].make else { return None };
        let home = homes[*parts.first()?]?;
        let mut next = home.first;
        for &part in parts {
            if homes[part] != Some(Home { first: next, ..home }) {
                return None;
            }
            next += self.values[part].shape[1];
        }
        Some(home)
    }

    /// Gives `concat` its home, and its parts theirs in it, as far as they are free.
    fn assign(&self, concat: Id, home: Home, free: &[bool], homes: &mut Homes) {
        homes[concat] = Some(home);
        let mut open = vec![(concat, home)];
        while let Some((id, home)) = open.pop() {
            let Make::Concat { parts } = &self.values[id].make else { continue };
            let mut first = home.first;
            for &part in parts {
                if homes[part].is_none() && free[part] {
                    homes[part] = Some(Home { first, ..home });
                    open.push((part, Home { first, ..home }));
                }
                first += self.values[part].shape[1];
            }
        }
    }
}
