//! Length of an image that a program hands over by its address alone, as to `cuModuleLoadData`.

use super::cubin;
use super::fatbin::{self, MAGIC as FATBIN};
use crate::error::Error;

/// Upper bound of an image's bytes. The driver takes no longer one.
const MAX_BYTES: usize = 1 << 34;

/// Length of an image, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Number of bytes that must be known for the length. It is more than are known.
    AtLeast(usize),
    /// Bytes of a CUBIN or a fatbin.
    Whole(usize),
    /// Neither a CUBIN nor a fatbin, so it ends with its first NUL.
    Text,
}

/// Returns how long an image is that begins with these bytes, of which there must be four. The
/// caller finds out whether as many can be read as the answer says, and asks again.
///
/// # Errors
///
/// Its header is damaged, or names more than 16 GiB.
pub fn extent(known: &[u8]) -> Result<Extent, Error> {
    let extent = if known.starts_with(&FATBIN) {
        of_fatbin(known)?
    } else if known.starts_with(&cubin::MAGIC) {
        of_cubin(known)?
    } else {
        Extent::Text
    };
    match extent {
        Extent::AtLeast(bytes) | Extent::Whole(bytes) if bytes > MAX_BYTES => {
            Err(Error::Image("the header of this image names more than 16 GiB"))
        }
        extent => Ok(extent),
    }
}

fn of_fatbin(known: &[u8]) -> Result<Extent, Error> {
    if known.len() < fatbin::HEADER {
        return Ok(Extent::AtLeast(fatbin::HEADER));
    }
    fatbin::end(known).map(Extent::Whole)
}

fn of_cubin(known: &[u8]) -> Result<Extent, Error> {
    if known.len() < cubin::HEADER {
        return Ok(Extent::AtLeast(cubin::HEADER));
    }
    let headers = cubin::end_of_headers(known)?;
    if known.len() < headers {
        return Ok(Extent::AtLeast(headers));
    }
    cubin::end(known).map(|end| Extent::Whole(end.max(headers)))
}

#[cfg(test)]
mod tests {
    use super::super::fatbin::tests::of;
    use super::*;

    const CUBIN: &[u8] = include_bytes!("../../tests/corpus/scale_in_place.cubin");

    /// Length of an image, asked for as often as bytes become known, and how many were needed.
    fn found(image: &[u8]) -> Result<(Extent, usize), Error> {
        let mut known = 4;
        loop {
            match extent(&image[..known])? {
                Extent::AtLeast(more) if more > known && more <= image.len() => known = more,
                extent => return Ok((extent, known)),
            }
        }
    }

    #[test]
    fn length_is_that_of_the_whole_file() {
        let fatbin = include_bytes!("../../tests/bump.fatbin");
        let behind = |image: &[u8]| [image, &[0xff; 100]].concat();
        assert_eq!(found(&behind(CUBIN)).unwrap().0, Extent::Whole(CUBIN.len()));
        assert_eq!(found(&behind(fatbin)), Ok((Extent::Whole(fatbin.len()), 16)));
        assert_eq!(extent(b".ver"), Ok(Extent::Text));
    }

    #[test]
    fn image_that_is_cut_off_asks_for_what_lacks() {
        for len in 4..CUBIN.len() {
            match found(&CUBIN[..len]).unwrap().0 {
                Extent::AtLeast(more) => assert!(more > len && more <= CUBIN.len(), "{len}"),
                extent => assert_eq!(extent, Extent::Whole(CUBIN.len()), "{len}"),
            }
        }
    }

    #[test]
    fn header_that_names_too_much_is_refused() {
        let mut fatbin = of(1, b".version 9.0", 0, 0);
        fatbin[8..16].fill(0xff);
        assert!(extent(&fatbin).is_err());
        fatbin[8..16].copy_from_slice(&(1_u64 << 35).to_le_bytes());
        assert!(extent(&fatbin).unwrap_err().to_string().contains("16 GiB"));
        for at in [32, 40] {
            // Where the headers of segments stand, and of sections.
            let mut cubin = CUBIN.to_vec();
            cubin[at..at + 8].fill(0xff);
            assert!(found(&cubin).is_err(), "byte {at}");
        }
        let mut other = CUBIN.to_vec();
        other[18] = 62; // x86-64
        assert!(extent(&other).unwrap_err().to_string().contains("not for an NVIDIA GPU"));
    }

    #[test]
    fn many_sections_are_counted_by_the_first() {
        let mut cubin = CUBIN.to_vec();
        let first = usize::try_from(u64::from_le_bytes(cubin[40..48].try_into().unwrap())).unwrap();
        let count = u16::from_le_bytes(cubin[60..62].try_into().unwrap());
        cubin[60..62].fill(0);
        cubin[first + 32..first + 40].copy_from_slice(&u64::from(count).to_le_bytes());
        assert_eq!(found(&cubin).unwrap().0, Extent::Whole(CUBIN.len()));
        cubin[first + 32..first + 40].fill(0xff);
        assert!(found(&cubin).is_err());
    }
}
