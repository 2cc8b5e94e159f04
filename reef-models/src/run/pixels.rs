//! Pixels of JPEG and PNG files, and images of another size.

use resize::Pixel::RGB8;
use resize::px::RGB;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Most pixels of an image: a small file can claim far more than the memory holds.
const MAX_PIXELS: usize = 1 << 27;

/// Red, green and blue.
pub(crate) type Rgb8 = RGB<u8>;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// An image, row by row.
#[derive(Debug, Clone)]
pub(crate) struct Pixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pixels: Vec<Rgb8>,
}

impl Pixels {
    /// Decodes a file, whichever of the two it is. An alpha channel is dropped, sixteen bits become
    /// eight.
    ///
    /// # Errors
    ///
    /// The fault of the file, without its name.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let mut file = BufReader::new(reef_files::regular(path)?);
        let begin = file.fill_buf()?;
        if begin.starts_with(&[0xff, 0xd8, 0xff]) {
            jpeg(file)
        } else if begin.starts_with(b"\x89PNG\r\n\x1a\n") {
            png(file)
        } else {
            Err("neither a JPEG nor a PNG file".into())
        }
    }

    /// As many pixels as columns times rows.
    pub(crate) fn of_pixels([width, height]: [usize; 2], pixels: Vec<Rgb8>) -> Self {
        Self { width, height, pixels }
    }

    /// Bytes of a whole image with `channels` for each pixel: grey, grey and alpha, RGB, or RGB
    /// and alpha.
    fn of(width: usize, height: usize, channels: usize, bytes: &[u8]) -> Result<Self> {
        let pixels: Vec<Rgb8> = bytes.chunks_exact(channels).map(rgb).collect();
        if pixels.len() != width * height {
            return Err(format!("{width} x {height} pixels, but data of {}", pixels.len()).into());
        }
        Ok(Self { width, height, pixels })
    }

    /// Resizes the image, bilinear and antialiased.
    pub(crate) fn resized(&self, width: usize, height: usize) -> Result<Self> {
        let mut pixels = vec![Rgb8::default(); width * height];
        resize::new(self.width, self.height, width, height, RGB8, resize::Type::Triangle)?
            .resize(&self.pixels, &mut pixels)?;
        Ok(Self { width, height, pixels })
    }

    /// A rectangle, row by row. It must lie inside.
    pub(crate) fn cropped(
        &self,
        [left, top]: [usize; 2],
        [width, height]: [usize; 2],
    ) -> impl Iterator<Item = Rgb8> + Clone {
        let rows = self.pixels.chunks_exact(self.width).skip(top).take(height);
        rows.flat_map(move |row| &row[left..left + width]).copied()
    }
}

fn rgb(pixel: &[u8]) -> Rgb8 {
    match *pixel {
        [r, g, b, ..] => Rgb8::new(r, g, b),
        [grey, ..] => Rgb8::new(grey, grey, grey),
        [] => Rgb8::default(),
    }
}

/// Refuses a size before anything is allocated for it.
pub(crate) fn check(width: usize, height: usize) -> Result<()> {
    match width.checked_mul(height) {
        Some(1..=MAX_PIXELS) => Ok(()),
        _ => Err(format!("{width} x {height} pixels, but 1 to {MAX_PIXELS} can be read").into()),
    }
}

fn jpeg(file: BufReader<File>) -> Result<Pixels> {
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(file, options);
    decoder.decode_headers()?;
    let (width, height) = decoder.dimensions().ok_or("no size in its header")?;
    check(width, height)?;
    Pixels::of(width, height, 3, &decoder.decode()?)
}

fn png(file: BufReader<File>) -> Result<Pixels> {
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    check(width, height)?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or("too many bytes")?];
    let frame = reader.next_frame(&mut bytes)?;
    Pixels::of(width, height, frame.color_type.samples(), &bytes[..frame.buffer_size()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A file that is removed when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let file = format!("reef-pixels-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(file);
            std::fs::write(&path, bytes).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn encoded(size: (u32, u32), format: (png::ColorType, png::BitDepth), data: &[u8]) -> Vec<u8> {
        let ((width, height), (color, depth)) = (size, format);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        file
    }

    #[test]
    fn every_kind_of_png_becomes_eight_bits_of_rgb() {
        use png::{BitDepth, ColorType};
        let two = [Rgb8::new(1, 2, 3), Rgb8::new(250, 251, 252)];
        let grey = [Rgb8::new(7, 7, 7), Rgb8::new(200, 200, 200)];
        let deep = [1, 99, 2, 99, 3, 99, 250, 99, 251, 99, 252, 99];
        type Case<'a> = (&'a str, ColorType, BitDepth, &'a [u8], [Rgb8; 2]);
        let cases: [Case<'_>; 4] = [
            ("rgb", ColorType::Rgb, BitDepth::Eight, &[1, 2, 3, 250, 251, 252], two),
            ("rgba", ColorType::Rgba, BitDepth::Eight, &[1, 2, 3, 0, 250, 251, 252, 9], two),
            ("rgb16", ColorType::Rgb, BitDepth::Sixteen, &deep, two),
            ("grey", ColorType::GrayscaleAlpha, BitDepth::Eight, &[7, 0, 200, 9], grey),
        ];
        for (name, color, depth, data, want) in cases {
            let file = Scratch::new(name, &encoded((2, 1), (color, depth), data));
            let pixels = Pixels::read(&file.0).unwrap();
            assert_eq!((pixels.width, pixels.height), (2, 1), "{name}");
            assert_eq!(pixels.pixels, want, "{name}");
        }
    }

    #[test]
    fn oversized_header_is_refused_before_allocation() {
        let whole = encoded((1, 1), (png::ColorType::Grayscale, png::BitDepth::Eight), &[0]);
        // The sizes in the header, and its checksum.
        let mut huge = whole.clone();
        huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        let mut crc = !0u32;
        for byte in &huge[12..29] {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            }
        }
        huge[29..33].copy_from_slice(&(!crc).to_be_bytes());
        let file = Scratch::new("huge.png", &huge);
        let said = Pixels::read(&file.0).unwrap_err().to_string();
        assert!(said.starts_with("65536 x 65536 pixels"), "{said}");
        let cut = Scratch::new("cut.png", &whole[..whole.len() - 20]);
        assert!(Pixels::read(&cut.0).is_err());
    }
}
