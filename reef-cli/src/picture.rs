//! A picture as a network wants it.

use std::fmt;
use std::path::{Path, PathBuf};

/// Means and deviations of the pictures that torchvision's networks were trained with.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// A file that is no picture we can read.
#[derive(Debug)]
pub(crate) struct Wrong(PathBuf, String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.display(), self.1)
    }
}

impl std::error::Error for Wrong {}

/// Reads a JPEG or PNG file as `size` × `size` pixels, channel by channel, normalised.
///
/// The middle square is scaled; colours become three planes.
pub(crate) fn load(path: &Path, size: usize) -> Result<Vec<f32>, Wrong> {
    let wrong = |error: &dyn fmt::Display| Wrong(path.into(), error.to_string());
    let reader = image::ImageReader::open(path).map_err(|e| wrong(&e))?;
    let reader = reader.with_guessed_format().map_err(|e| wrong(&e))?;
    let picture = reader.decode().map_err(|e| wrong(&e))?;
    let filter = image::imageops::FilterType::Triangle;
    let picture = picture.resize_to_fill(size as u32, size as u32, filter).into_rgb8();
    let plane = |c: usize| {
        let normal = move |p: &image::Rgb<u8>| (f32::from(p.0[c]) / 255.0 - MEAN[c]) / DEVIATION[c];
        picture.pixels().map(normal)
    };
    Ok((0..3).flat_map(plane).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_becomes_three_normalised_planes() {
        let path = std::env::temp_dir().join(format!("reef-picture-{}.png", std::process::id()));
        image::RgbImage::from_pixel(30, 20, image::Rgb([255, 0, 0])).save(&path).unwrap();
        let planes = load(&path, 8).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(planes.len(), 3 * 8 * 8);
        assert!((planes[0] - (1.0 - MEAN[0]) / DEVIATION[0]).abs() < 1e-5);
        assert!((planes[64] + MEAN[1] / DEVIATION[1]).abs() < 1e-5);
    }

    #[test]
    fn what_is_no_picture_is_named() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(load(&here.join("Cargo.toml"), 8).unwrap_err().to_string().contains("Cargo.toml"));
        assert!(
            load(&here.join("missing.jpg"), 8).unwrap_err().to_string().contains("missing.jpg")
        );
    }
}
