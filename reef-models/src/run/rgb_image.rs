//! Images that a program cuts up and resizes by itself.

use super::pixels::{Pixels, Rgb8, check};
use crate::errors::error::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// An image in red, green and blue. For one that a network classifies,
/// [`Transform`](super::image::Transform) does all at once.
#[derive(Debug, Clone)]
pub struct Image {
    file: PathBuf,
    pixels: Pixels,
}

impl Image {
    /// Reads a JPEG or PNG file.
    ///
    /// # Errors
    ///
    /// `Image` if there is none that can be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let file = path.as_ref().to_owned();
        let pixels = Pixels::read(&file).map_err(|error| wrong(&file, &error))?;
        Ok(Self { file, pixels })
    }

    /// Columns and rows.
    pub fn size(&self) -> [usize; 2] {
        [self.pixels.width, self.pixels.height]
    }

    /// The rectangle of `size` whose first column and row is `corner`.
    ///
    /// # Errors
    ///
    /// `Image` if it isn't all inside, or empty.
    pub fn part(&self, corner: [usize; 2], size: [usize; 2]) -> Result<Self> {
        let whole = self.size();
        let inside = |k: usize| {
            let end = corner[k].checked_add(size[k]);
            size[k] > 0 && end.is_some_and(|end| end <= whole[k])
        };
        if !(inside(0) && inside(1)) {
            let why = format!("no {size:?} pixels at {corner:?} of {whole:?}");
            return Err(wrong(&self.file, &why));
        }
        Ok(self.of(Pixels::of_pixels(size, self.pixels.cropped(corner, size).collect())))
    }

    /// Resizes the image to these columns and rows, bilinear and antialiased.
    ///
    /// # Errors
    ///
    /// `Image` if that is none, or too many.
    pub fn resized(&self, [width, height]: [usize; 2]) -> Result<Self> {
        let resized = check(width, height).and_then(|()| self.pixels.resized(width, height));
        Ok(self.of(resized.map_err(|error| wrong(&self.file, &error))?))
    }

    /// Turns the image upside down.
    #[must_use]
    pub fn turned(&self) -> Self {
        let mut pixels: Vec<Rgb8> = self.pixels.cropped([0, 0], self.size()).collect();
        pixels.reverse();
        self.of(Pixels::of_pixels(self.size(), pixels))
    }

    /// Three planes, red, green and blue, row by row: each value in 0..1, less `mean` and divided
    /// by `deviation`.
    pub fn planes(&self, mean: [f32; 3], deviation: [f32; 3]) -> Vec<f32> {
        let pixels = self.pixels.cropped([0, 0], self.size());
        planes(pixels, mean, deviation)
    }

    fn of(&self, pixels: Pixels) -> Self {
        Self { file: self.file.clone(), pixels }
    }
}

/// Planes of normalised pixels, one for each colour.
pub(super) fn planes(
    pixels: impl Iterator<Item = Rgb8> + Clone,
    mean: [f32; 3],
    deviation: [f32; 3],
) -> Vec<f32> {
    let plane = |c: usize, color: fn(Rgb8) -> u8| {
        let normal = move |p| (f32::from(color(p)) / 255.0 - mean[c]) / deviation[c];
        pixels.clone().map(normal)
    };
    plane(0, |p| p.r).chain(plane(1, |p| p.g)).chain(plane(2, |p| p.b)).collect()
}

/// In one line: decoders of images end theirs.
pub(super) fn wrong(path: &Path, error: &dyn fmt::Display) -> Error {
    let words = error.to_string();
    let why = words.split_whitespace().collect::<Vec<_>>().join(" ");
    Error::Image { file: path.display().to_string(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide() -> Image {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
        Image::read(folder.join("wide.png")).unwrap()
    }

    #[test]
    fn parts_and_turned_images_have_the_pixels_of_the_whole() {
        let (whole, [width, height]) = (wide(), wide().size());
        let values = |image: &Image| image.planes([0.0; 3], [1.0; 3]);
        let (all, part) = (values(&whole), values(&whole.part([2, 1], [3, 2]).unwrap()));
        assert_eq!(part[..3], all[width + 2..width + 5]);
        assert_eq!(part[9..12], all[width * height + 2 * width + 2..][..3]);
        let (turned, last) = (values(&whole.turned()), width * height - 1);
        assert_eq!((turned[0], turned[last]), (all[last], all[0]));
        assert_eq!(values(&whole.turned().turned()), all);
        assert_eq!(whole.resized([7, 9]).unwrap().size(), [7, 9]);
    }

    #[test]
    fn crop_outside_is_refused_with_both_sizes() {
        let whole = wide();
        let [width, height] = whole.size();
        for (corner, size) in [
            ([width, 0], [1, 1]),
            ([0, 0], [0, 1]),
            ([0, 1], [1, height]),
            ([usize::MAX; 2], [2; 2]),
        ] {
            let said = whole.part(corner, size).unwrap_err().to_string();
            let end = format!("no {size:?} pixels at {corner:?} of [{width}, {height}]");
            assert!(said.ends_with(&end), "{said}");
        }
        assert!(whole.resized([0, 3]).is_err() && whole.resized([1 << 30, 1 << 30]).is_err());
    }
}
