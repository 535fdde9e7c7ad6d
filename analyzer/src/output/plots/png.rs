//! Pixels as a PNG file: "How do they get into a document?"
//!
//! Uses flate2 for compression and checksums. Invariant: eight bits each of red, green and blue, nothing else: no time, no
//! gamma, no names, so that the same pixels give the same bytes.

use flate2::{Compression, Crc, write::ZlibEncoder};
use std::io::{self, Write};

/// Encodes rows of RGB pixels.
///
/// # Errors
/// When the pixels do not fill the rectangle.
pub(super) fn encode(pixels: &[u8], width: u32, height: u32) -> io::Result<Vec<u8>> {
    let row = width as usize * 3;
    if row == 0 || pixels.len() != row * height as usize {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the pixels do not fill the picture"));
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    for line in pixels.chunks_exact(row) {
        // Every row says that it is not filtered.
        packed.write_all(&[0])?;
        packed.write_all(line)?;
    }
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    // Eight bits a channel, colour type 2, the only compression and filter methods, no interlacing.
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, b"IHDR", &header);
    chunk(&mut file, b"IDAT", &packed.finish()?);
    chunk(&mut file, b"IEND", &[]);
    Ok(file)
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let mut sum = Crc::new();
    sum.update(kind);
    sum.update(data);
    file.extend((data.len() as u32).to_be_bytes());
    file.extend(kind);
    file.extend(data);
    file.extend(sum.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    #[test]
    fn a_file_holds_the_rows_and_its_checksums() {
        let file = encode(&[1, 2, 3, 4, 5, 6], 1, 2).expect("fits");
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x02\x08\x02\0\0\0"));
        // The checksum of the empty end chunk is the same in every PNG file.
        assert!(file.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"));
        let at = file.windows(4).position(|four| four == b"IDAT").expect("there");
        let mut rows = Vec::new();
        ZlibDecoder::new(&file[at + 4..]).read_to_end(&mut rows).expect("packed");
        assert_eq!(rows, [0, 1, 2, 3, 0, 4, 5, 6]);
        assert!(encode(&[1, 2], 1, 1).is_err() && encode(&[], 0, 0).is_err());
    }
}
