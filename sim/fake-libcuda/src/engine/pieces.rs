//! Memory by handles and exported memory: how they end.

use super::device_memory::{Piece, give_back, leave};
use super::world::World;

impl World {
    /// Changes a piece, which ends when nothing refers to it any more. False: there is none.
    pub(crate) fn change_piece(&mut self, handle: usize, change: impl FnOnce(&mut Piece)) -> bool {
        let Some(piece) = self.pieces.get_mut(&handle) else { return false };
        change(piece);
        let Piece { bytes, references, mappings, exports, owner } = *piece;
        if (references, mappings, exports) == (0, 0, 0) {
            self.pieces.remove(&handle);
            self.files.remove(&handle);
            match owner {
                Some(owner) => leave(owner, bytes),
                None => give_back(bytes),
            }
            self.take_out(handle, &|_| true);
        }
        true
    }

    /// Takes pieces out of an array or an object.
    pub(crate) fn take_out(&mut self, from: usize, is_meant: &dyn Fn(&[u64; 4]) -> bool) {
        let is_gone =
            |(of, place, _): &mut (usize, [u64; 4], usize)| *of == from && is_meant(place);
        let gone: Vec<_> = self.inside.extract_if(.., is_gone).collect();
        for (.., piece) in gone {
            self.change_piece(piece, |piece| piece.mappings -= 1);
        }
    }
}

impl World {
    /// Keeps the bytes of an allocation that has ended, if a file has them. False: none does.
    pub(super) fn keep_exported(&mut self, at: usize, bytes: u64) -> bool {
        self.end_closed_exports();
        let number = self.number();
        let its = self.exported.iter_mut().filter(|(_, owner, end)| *owner == at && end.is_none());
        let files = its.map(|(.., end)| *end = Some(number)).count();
        if files > 0 {
            self.kept.insert(number, bytes);
        }
        files > 0
    }

    /// Ends what closed files have kept.
    pub(crate) fn end_closed_exports(&mut self) {
        self.exported.retain(|(file, ..)| !file.is_closed());
        let exported = &self.exported;
        let is_over = |number: &u64| !exported.iter().any(|(.., end)| *end == Some(*number));
        let over = self.kept.extract_if(|number, _| is_over(number));
        over.for_each(|(_, bytes)| give_back(bytes));
        let pieces = self.exported_pieces.extract_if(.., |(file, _)| file.is_closed());
        let pieces: Vec<_> = pieces.map(|(_, piece)| piece).collect();
        for piece in pieces {
            self.change_piece(piece, |piece| piece.exports -= 1);
        }
    }
}
