//! Names of objects at the other end, which the client makes up.
//!
//! An id has a tag (sort of object), a generation and an index, and is never an address. A client
//! names an object in the frame that asks for it, so asking needs no answer. The server looks each
//! id up in a table that checks all three: a stale, foreign or invented id is an error.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

/// Name of an object: `tag` 8 bits, `generation` 24 bits, `index` 32 bits, from the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

const MAX_GENERATION: u32 = (1 << 24) - 1;

impl Id {
    /// Puts an id together.
    fn new(tag: u8, generation: u32, index: u32) -> Self {
        Self(u64::from(tag) << 56 | u64::from(generation & MAX_GENERATION) << 32 | u64::from(index))
    }

    /// Reads an id from its bits. Every number is an id, of an object or of none.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits of the id.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the sort of object.
    pub fn tag(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Returns the use of its index that this id names.
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & MAX_GENERATION
    }

    /// Returns the place in the tables.
    pub fn index(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}:{}.{}", self.tag(), self.index(), self.generation())
    }
}

/// Source of ids at the client: an index is used again when its object has been released.
#[derive(Debug)]
pub struct Mint {
    tag: u8,
    /// Next generation of each index.
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl Mint {
    /// A source of ids with this tag.
    pub fn new(tag: u8) -> Self {
        Self { tag, generations: Vec::new(), free: Vec::new() }
    }

    /// Returns an id that names nothing yet.
    pub fn mint(&mut self) -> Id {
        let index = self.free.pop().unwrap_or_else(|| {
            self.generations.push(0);
            (self.generations.len() - 1) as u32
        });
        Id::new(self.tag, self.generations[index as usize], index)
    }

    /// Takes an id back. An index whose generations are used up is not given out again.
    pub fn release(&mut self, id: Id) {
        let generation = &mut self.generations[id.index() as usize];
        if *generation < MAX_GENERATION {
            *generation += 1;
            self.free.push(id.index());
        }
    }
}

/// Objects by id, at the server. A client chooses the indices, so these take no memory.
#[derive(Debug)]
pub struct Table<T> {
    tag: u8,
    name: &'static str,
    max: usize,
    /// Generations and objects by their indices.
    entries: BTreeMap<u32, (u32, T)>,
}

impl<T> Table<T> {
    /// A table of at most `max` objects with this tag, called `name` in errors.
    pub fn new(tag: u8, name: &'static str, max: usize) -> Self {
        Self { tag, name, max, entries: BTreeMap::new() }
    }

    /// Records an object under the id that the client chose.
    ///
    /// # Errors
    ///
    /// `Protocol` if the tag is another, the index is too high or in use.
    pub fn insert(&mut self, id: Id, value: T) -> Result<()> {
        let (name, index) = (self.name, id.index());
        if id.tag() != self.tag || index as usize >= self.max {
            let max = self.max;
            return Err(Error::Protocol(format!("{name} {id}: cannot be made (at most {max})")));
        }
        let Entry::Vacant(entry) = self.entries.entry(index) else {
            return Err(Error::Protocol(format!("{name} {id}: its index is in use")));
        };
        entry.insert((id.generation(), value));
        Ok(())
    }

    /// Returns the object that an id names.
    ///
    /// # Errors
    ///
    /// `Protocol` if it names none.
    pub fn get(&self, id: Id) -> Result<&T> {
        match self.entries.get(&id.index()) {
            Some((generation, value)) if id.tag() == self.tag && *generation == id.generation() => {
                Ok(value)
            }
            _ => Err(self.none(id)),
        }
    }

    /// Returns all objects.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|(_, value)| value)
    }

    /// Returns all objects with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        let tag = self.tag;
        let entries = self.entries.iter();
        entries.map(move |(index, (generation, value))| (Id::new(tag, *generation, *index), value))
    }

    fn none(&self, id: Id) -> Error {
        Error::Protocol(format!("{} {id}: there is none", self.name))
    }

    /// Takes an object out.
    ///
    /// # Errors
    ///
    /// `Protocol` if the id names none.
    pub fn remove(&mut self, id: Id) -> Result<T> {
        self.get(id)?;
        let taken = self.entries.remove(&id.index());
        taken.map(|(_, value)| value).ok_or_else(|| self.none(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_has_its_parts() {
        let id = Id::new(0xab, 0x123456, 0x89abcdef);
        assert_eq!((id.tag(), id.generation(), id.index()), (0xab, 0x123456, 0x89abcdef));
        assert_eq!(id.bits(), 0xab12_3456_89ab_cdef);
        assert_eq!(id.to_string(), "0xab:2309737967.1193046");
    }

    #[test]
    fn released_index_comes_back_with_another_generation() {
        let mut mint = Mint::new(1);
        let (first, second) = (mint.mint(), mint.mint());
        mint.release(first);
        let third = mint.mint();
        assert_eq!(third.index(), first.index());
        assert!(third != first && third != second);
        mint.generations[third.index() as usize] = MAX_GENERATION;
        mint.release(third);
        assert_eq!(mint.mint().index(), 2, "a used-up index is not given out again");
    }

    #[test]
    fn index_of_an_object_takes_no_memory() {
        let mut table = Table::new(1, "buffer", usize::MAX);
        let id = Id::new(1, 0, u32::MAX);
        table.insert(id, [0_u64; 64]).unwrap();
        assert!(table.get(id).is_ok());
        assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [id]);
        assert!(table.remove(id).is_ok() && table.values().next().is_none());
    }

    #[test]
    fn stale_foreign_and_invented_ids_are_refused() {
        let (mut mint, mut table) = (Mint::new(1), Table::new(1, "buffer", 4));
        let id = mint.mint();
        table.insert(id, "a").unwrap();
        assert_eq!(table.get(id), Ok(&"a"));
        assert!(table.insert(id, "again").is_err());
        for wrong in [Id::new(2, 0, 0), Id::new(1, 1, 0), Id::new(1, 0, 1), Id::new(1, 0, u32::MAX)]
        {
            let said = table.get(wrong).unwrap_err().to_string();
            assert!(said.contains("there is none"), "{said}");
            assert!(table.remove(wrong).is_err());
        }
        assert!(table.insert(Id::new(1, 0, 4), "too high").is_err());
        assert!(table.insert(Id::new(2, 0, 1), "of another sort").is_err());
        assert_eq!(table.remove(id), Ok("a"));
        assert!(table.get(id).is_err());
    }
}
