//! Opcodes that load or store, in one line each.
//!
//! For modules that have `places`, which gives the addresses of each lane's bytes, and `stored`,
//! the first register of the stored value.

macro_rules! load {
    ($words:literal) => {
        $crate::isa::inst::Run::Memory(|w, i, env| {
            let from = places(w, i, env, 4 * $words)?;
            $crate::isa::ops::access::load_words(w, i.dst, $words, &from);
            Ok(())
        })
    };
    ($part:ident) => {
        $crate::isa::inst::Run::Memory(|w, i, env| {
            let part = $crate::isa::ops::access::SubWord::$part;
            let from = places(w, i, env, part.bytes())?;
            $crate::isa::ops::access::load_part(w, i, part, &from);
            Ok(())
        })
    };
    ($part:ident $shift:literal) => {
        $crate::isa::inst::Run::Memory(|w, i, env| {
            let part = $crate::isa::ops::access::SubWord::$part;
            let from = places(w, i, env, part.bytes())?;
            $crate::isa::ops::access::load_half(w, i, part, $shift, &from);
            Ok(())
        })
    };
}

macro_rules! store {
    ($words:literal) => {
        $crate::isa::inst::Run::Memory(|w, i, env| {
            let to = places(w, i, env, 4 * $words)?;
            $crate::isa::ops::access::store_words(w, stored(i), $words, &to);
            Ok(())
        })
    };
    ($store:ident $bytes:literal $shift:literal) => {
        $crate::isa::inst::Run::Memory(|w, i, env| {
            let to = places(w, i, env, $bytes)?;
            $crate::isa::ops::access::$store(w, stored(i), $shift, &to);
            Ok(())
        })
    };
}

pub(super) use {load, store};
