//! Images as torchvision's networks want them; needs the feature `images`.
//!
//! This is torchvision's transform for evaluation (`torchvision/transforms/_presets.py`,
//! `ImageClassification`, with its defaults): the shorter side is resized, bilinear and
//! antialiased; the middle square is cut out; pixels become three planes in 0..1, and those are
//! normalised. Like there, an alpha channel is dropped and an EXIF orientation is not looked at.

use super::pixels::{Pixels, check};
pub use super::rgb_image::Image;
use super::rgb_image::{planes, wrong};
use crate::errors::error::Result;
use std::fmt;
use std::path::Path;

/// Maximum ratio of one side to the other. Resized, a thinner image would fill the memory.
const MAX_SIDE_RATIO: usize = 64;

/// Steps from an image to the input of a network.
///
/// ```
/// use reef_models::image::Transform;
///
/// let transform = Transform::of("resnet50", 224);
/// assert_eq!((transform.resize, transform.crop), (256, 224));
/// // A network of one's own that wants -1..1.
/// let own = Transform { mean: [0.5; 3], deviation: [0.5; 3], ..transform };
/// assert!(own.read("absent.jpg").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transform {
    /// The shorter side after resizing.
    pub resize: usize,
    /// Rows and columns of the square that is cut out, at most `resize`.
    pub crop: usize,
    /// Subtracted from red, green and blue.
    pub mean: [f32; 3],
    /// Divisors of the differences.
    pub deviation: [f32; 3],
}

impl Transform {
    /// Transform of `network` for images of `size`.
    ///
    /// The shorter side is 8/7 of the square, so 256 for 224 and 342 for 299. Inception v3, where
    /// it is built by name, leaves out `transform_input`, which maps ImageNet's normalisation to
    /// -1..1; so that is done here.
    pub fn of(network: &str, size: usize) -> Self {
        let resize = size.saturating_mul(8).saturating_add(3) / 7; // rounded
        let imagenet = Self {
            resize,
            crop: size,
            mean: [0.485, 0.456, 0.406],
            deviation: [0.229, 0.224, 0.225],
        };
        match network {
            "inception_v3" => Self { mean: [0.5; 3], deviation: [0.5; 3], ..imagenet },
            _ => imagenet,
        }
    }

    /// Reads a JPEG or PNG file: three planes, row by row.
    ///
    /// # Errors
    ///
    /// `Image` if there is none that can be read, or it has no such square.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<f32>> {
        let path = path.as_ref();
        let wrong = |error: &dyn fmt::Display| wrong(path, error);
        let Self { resize, crop, .. } = *self;
        if !(1..=resize).contains(&crop) {
            return Err(wrong(&format!(
                "crop must be from 1 to the shorter side {resize}, got {crop}"
            )));
        }
        let image = Pixels::read(path).map_err(|e| wrong(&e))?;
        let (width, height) = (image.width, image.height);
        if width.max(height) > MAX_SIDE_RATIO * width.min(height) {
            let shape = format!("{width} x {height} pixels");
            return Err(wrong(&format!(
                "{shape}: one side is over {MAX_SIDE_RATIO} times the other"
            )));
        }
        let resized = self.resized(image).map_err(|e| wrong(&e))?;
        Ok(self.planes(&resized))
    }

    /// With a shorter side of `resize`.
    fn resized(&self, image: Pixels) -> std::result::Result<Pixels, Box<dyn std::error::Error>> {
        let short = image.width.min(image.height);
        if short == self.resize {
            return Ok(image);
        }
        let scaled = |side| self.resize.checked_mul(side).map_or(usize::MAX, |side| side / short);
        let [width, height] = [image.width, image.height].map(scaled);
        check(width, height)?;
        image.resized(width, height)
    }

    /// The middle square, normalised.
    fn planes(&self, resized: &Pixels) -> Vec<f32> {
        let corner = [resized.width, resized.height].map(|side| half_to_even(side - self.crop));
        planes(resized.cropped(corner, [self.crop; 2]), self.mean, self.deviation)
    }
}

/// Half of it; the even neighbour where there are two, as Python rounds.
fn half_to_even(number: usize) -> usize {
    let half = number / 2;
    if number.is_multiple_of(2) { half } else { half + half % 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::path::PathBuf;

    /// An image by PIL and torchvision's rules: see `tests/images/make.py`.
    #[derive(Deserialize)]
    struct Golden {
        file: String,
        network: String,
        size: usize,
        resize: usize,
        /// Planes of bytes, before they are normalised.
        bytes: Vec<u8>,
        /// The first value of each plane, normalised.
        first: [f32; 3],
    }

    fn golden() -> Vec<Golden> {
        serde_json::from_str(include_str!("../../tests/images/golden.json")).expect("our own file")
    }

    fn image(file: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images").join(file)
    }

    /// PIL rounds between rows and columns, we don't; and decoders of JPEG differ by a little.
    #[test]
    fn images_are_what_torchvision_makes_of_them() {
        for want in golden() {
            let Golden { file, network, size, resize, bytes, first } = want;
            let transform = Transform::of(&network, size);
            assert_eq!(transform.resize, resize, "{file}");
            let planes = transform.read(image(&file)).unwrap();
            assert_eq!(planes.len(), bytes.len(), "{file}");
            let level = |index: usize| {
                let plane = index / (size * size);
                (planes[index] * transform.deviation[plane] + transform.mean[plane]) * 255.0
            };
            let off = |index: usize| (level(index) - f32::from(bytes[index])).abs();
            let (most, mean) = (0..bytes.len())
                .map(off)
                .fold((0f32, 0f32), |(most, sum), off| (most.max(off), sum + off));
            let (allowed, mean) =
                if file.ends_with(".jpg") { (4.0, mean / 2.0) } else { (1.01, mean) };
            assert!(most <= allowed, "{file} at {size}: a pixel is off by {most} of 255");
            let mean = mean / bytes.len() as f32;
            assert!(mean < 0.3, "{file} at {size}: pixels are off by {mean} of 255");
            for (plane, first) in first.into_iter().enumerate() {
                let allowed = (allowed + 0.01) / 255.0 / transform.deviation[plane];
                let have = planes[plane * size * size];
                assert!((have - first).abs() <= allowed, "{file}: {have} {first}");
            }
        }
    }

    #[test]
    fn square_that_no_image_can_have_is_refused() {
        let of = |resize, crop| Transform { resize, crop, ..Transform::of("", 8) };
        for (transform, words) in [
            (of(8, 9), "crop must be from 1 to the shorter side 8, got 9"),
            (of(8, 0), "got 0"),
            (of(0, 0), "got 0"),
            (Transform::of("", 0), "got 0"),
            (Transform::of("", usize::MAX), "crop must be"),
            (of(1 << 20, 8), "pixels, but 1 to"),
            (of(usize::MAX, 8), "pixels, but 1 to"),
        ] {
            let said = transform.read(image("wide.png")).unwrap_err().to_string();
            assert!(said.contains(words), "{transform:?}: {said}");
        }
    }

    #[test]
    fn halves_are_rounded_as_python_does() {
        assert_eq!([0, 1, 2, 3, 4, 5, 7].map(half_to_even), [0, 0, 1, 2, 2, 2, 4]);
    }

    #[test]
    fn files_without_a_image_are_refused_with_their_name() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let wrong = |path: &Path| Transform::of("", 8).read(path).unwrap_err().to_string();
        assert!(wrong(&here.join("Cargo.toml")).contains("Cargo.toml: "));
        assert!(wrong(&here.join("missing.jpg")).contains("missing.jpg: No such file"));
        let hair = std::env::temp_dir().join(format!("reef-hair-{}.png", std::process::id()));
        let file = std::fs::File::create(&hair).unwrap();
        let mut writer = png::Encoder::new(file, 2, 129).write_header().unwrap();
        writer.write_image_data(&[0; 2 * 129]).unwrap();
        writer.finish().unwrap();
        let said = wrong(&hair);
        std::fs::remove_file(&hair).unwrap();
        assert!(said.ends_with("2 x 129 pixels: one side is over 64 times the other"), "{said}");
    }
}
