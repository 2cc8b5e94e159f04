//! Any words are an instruction or an error.

use crate::common::Mapped;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef_gfx906::isa::{Pause, Wave};

/// First words that are likely to be instructions, by their encodings.
const ENCODINGS: [(u32, u32); 12] = [
    (0x8000_0000, 0x3fff_ffff),
    (0xb000_0000, 0x0fff_ffff),
    (0xbe80_0000, 0x007f_ffff),
    (0xbf00_0000, 0x007f_ffff),
    (0x0000_0000, 0x7fff_ffff),
    (0x7e00_0000, 0x01ff_ffff),
    (0x7c00_0000, 0x01ff_ffff),
    (0xd000_0000, 0x03ff_ffff),
    (0xd380_0000, 0x007f_ffff),
    (0xd800_0000, 0x03fe_ffff),
    (0xdc00_0000, 0x03ff_dfff),
    (0xe000_0000, 0x03fe_ffff),
];

fn word(random: &mut impl Rng) -> u32 {
    let (fixed, free) = ENCODINGS[random.random_range(0..ENCODINGS.len())];
    match random.random_range(0..4) {
        0 => random.random(),
        _ => fixed | random.random::<u32>() & free,
    }
}

#[test]
fn random_words_never_panic() {
    let seed = std::env::var("REEF_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(906);
    println!("REEF_FUZZ_SEED={seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut data = vec![0u64; 4096];
    let (mut executed, mut faults, mut ended) = (0, 0, 0);
    for _ in 0..20_000 {
        let code: Vec<u32> = (0..256).map(|_| word(&mut random)).collect();
        let mut memory = Mapped::default();
        // Code is mapped too, but what is written there is no concern of a test for panics.
        let (pc, data) = (memory.map(&code), memory.map_mut(&mut data));
        let vgprs = random.random_range(1..=64);
        let mut wave = Wave::new(pc, vgprs, random.random());
        wave.set_private(random.random_range(0..64));
        for register in 0..100 {
            let value = if register % 2 == 0 { data as u32 } else { (data >> 32) as u32 };
            wave.set_sgpr(register, if random.random() { value } else { random.random() });
        }
        for register in 0..vgprs {
            for lane in 0..64 {
                let value = if register % 2 == 0 { data as u32 } else { (data >> 32) as u32 };
                wave.set_vgpr(
                    register,
                    lane,
                    if random.random() { value } else { random.random() },
                );
            }
        }
        let mut lds = vec![0; 1024];
        for _ in 0..200 {
            match wave.run(&mut lds, &memory, 50) {
                Ok(Pause::Ended) => ended += 1,
                Ok(_) => continue,
                Err(fault) => {
                    assert!(!fault.why.is_empty());
                    faults += 1;
                }
            }
            break;
        }
        executed += wave.executed();
    }
    println!("{executed} instructions, {faults} faults, {ended} ends");
    // How far a program gets depends on where its memory is mapped: 2,700 to 45,000 in twenty runs.
    assert!(executed > 500 && faults > 10_000, "the words are not what they should be");
}
