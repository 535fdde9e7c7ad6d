//! Sources of weights on the host: mapped files and host memory.

use super::{Checkpoint, MappedSegment, Registrations, Window};
use crate::driver::{Element, HostBlock, HostBytes, MappedFile, SourceFile};
use crate::error::{Error, Result};
use crate::limits::{MIN_PINNED_BYTES, REGISTRATION_SEGMENT_BYTES};
use crate::plan::ParameterSource;
use crate::plan::checkpoint::Dtype;
use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

/// How file-backed tensors are held on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Shared read-only mapping; the page cache holds the bytes.
    Mapped,
    /// A private copy in host memory.
    Cpu,
    /// Read through the ring for each upload.
    Ring,
    /// Kept in host memory once it was read.
    Retained,
    /// Copied into staging slots for each upload, like tensors in host memory.
    Staged,
}

/// A stretch of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which file.
    pub file: usize,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Extent {
    /// Cuts the stretch in two; the first is at most `bytes` long.
    pub fn split_at(self, bytes: u64) -> (Extent, Extent) {
        let first = bytes.min(self.bytes);
        (Extent { bytes: first, ..self }, Extent { offset: self.offset + first, bytes: self.bytes - first, ..self })
    }
}

/// Where an upload finds its bytes.
#[derive(Clone, Debug)]
pub enum Origin {
    /// In memory, under a lease.
    Held(HostBytes),
    /// In a file that has to be read.
    Streamed(Extent),
}

impl Origin {
    /// How many there are.
    pub fn bytes(&self) -> u64 {
        match self {
            Origin::Held(lease) => lease.bytes(),
            Origin::Streamed(extent) => extent.bytes,
        }
    }

    /// A stretch of them; `None` when it lies outside.
    pub fn stretch(&self, from: u64, bytes: u64) -> Option<Origin> {
        match self {
            Origin::Held(lease) => lease.stretch(from, bytes).map(Origin::Held),
            Origin::Streamed(extent) => {
                let inside = from.checked_add(bytes).is_some_and(|end| end <= extent.bytes);
                inside.then(|| Origin::Streamed(Extent { offset: extent.offset + from, bytes, ..*extent }))
            }
        }
    }
}

impl SourceKind {
    /// Whether threads of the source read files for uploads.
    pub fn is_streamed(self) -> bool {
        matches!(self, SourceKind::Ring | SourceKind::Retained)
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Mapped => "mapped",
            SourceKind::Cpu => "cpu",
            SourceKind::Ring => "ring",
            SourceKind::Retained => "retained",
            SourceKind::Staged => "staged",
        }
    }
}

/// A private copy: on pages of its own where it is large enough to be registered.
fn copy_of(raw: &[u8]) -> Option<HostBytes> {
    let bytes = raw.len() as u64;
    if bytes >= MIN_PINNED_BYTES
        && let Ok(block) = HostBlock::map(bytes)
    {
        block.writer()?.as_mut_slice().copy_from_slice(raw);
        return block.lease(0, bytes);
    }
    HostBytes::new(Arc::new(AlignedBytes::copy_of(raw)), 0, bytes)
}

/// A stretch of a file in host memory, on pages of its own.
fn read_copy(file: &SourceFile, from: u64, bytes: u64) -> std::io::Result<HostBytes> {
    let busy = || std::io::Error::other("new memory is in use");
    let block = HostBlock::map(bytes)?;
    let mut writer = block.writer().ok_or_else(busy)?;
    file.read_into(from, writer.as_mut_slice())?;
    drop(writer);
    block.lease(0, bytes).ok_or_else(busy)
}

/// Host memory that is aligned for every element type.
struct AlignedBytes {
    words: Vec<u64>,
    bytes: usize,
}

impl AlignedBytes {
    fn copy_of(bytes: &[u8]) -> AlignedBytes {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        if let Some(to) = bytemuck::cast_slice_mut::<u64, u8>(&mut words).get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        AlignedBytes { words, bytes: bytes.len() }
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words).get(..self.bytes).unwrap_or(&[])
    }
}

/// A tensor that stays on the host.
#[derive(Clone)]
pub struct HostTensor {
    dtype: Dtype,
    shape: Vec<u64>,
    bytes: HostBytes,
}

impl Debug for HostTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTensor({} {:?})", self.dtype.name(), self.shape)
    }
}

impl HostTensor {
    /// A tensor with a private copy of the given elements.
    ///
    /// # Errors
    /// [`Error::Invalid`] when shape and number of elements disagree.
    pub fn from_elements<T: Element>(shape: &[u64], elements: &[T]) -> Result<HostTensor> {
        let raw: &[u8] = bytemuck::cast_slice(elements);
        if T::DTYPE.bytes_for(shape) != Some(raw.len() as u64) {
            let reason = format!("shape {shape:?} of {} does not describe {} bytes", T::DTYPE.name(), raw.len());
            return Err(Error::invalid("host tensor", reason));
        }
        let bytes = copy_of(raw).ok_or_else(|| Error::invalid("host tensor", "empty range"))?;
        Ok(HostTensor { dtype: T::DTYPE, shape: shape.to_vec(), bytes })
    }

    /// A tensor whose bytes are only counted, for simulations on a driver without bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the shape has no size.
    pub fn unbacked(dtype: Dtype, shape: &[u64]) -> Result<HostTensor> {
        let bytes = dtype.bytes_for(shape).and_then(HostBytes::unbacked);
        let bytes =
            bytes.ok_or_else(|| Error::invalid("host tensor", format!("shape {shape:?} of {} has no size", dtype.name())))?;
        Ok(HostTensor { dtype, shape: shape.to_vec(), bytes })
    }

    pub(crate) fn new(dtype: Dtype, shape: Vec<u64>, bytes: HostBytes) -> HostTensor {
        HostTensor { dtype, shape, bytes }
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Elements in each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The raw bytes; empty when they are only counted.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Payload in bytes.
    pub fn payload_bytes(&self) -> u64 {
        self.bytes.bytes()
    }

    /// True when there are real bytes.
    pub(crate) fn is_backed(&self) -> bool {
        self.bytes.is_backed()
    }

    pub(crate) fn lease(&self) -> HostBytes {
        self.bytes.clone()
    }

    /// The elements.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the element type is another one or the bytes are not aligned for it.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        if self.dtype != T::DTYPE {
            let reason = format!("it holds {}, not {}", self.dtype.name(), T::DTYPE.name());
            return Err(Error::invalid("host tensor", reason));
        }
        bytemuck::try_cast_slice(self.bytes()).map_err(|error| Error::invalid("host tensor", error.to_string()))
    }
}

/// Bytes of one file that uploads read from.
pub enum SourceBytes {
    /// The mapped file.
    Mapped(Arc<MappedFile>),
    /// A private copy of one stretch of the file.
    Cpu {
        /// The copy.
        copy: HostBytes,
        /// Offset of its first byte in the file.
        from: u64,
    },
    /// A file of so many bytes that is read when it is needed.
    Streamed(u64),
    /// Nothing managed lies in this file.
    Unused,
}

/// Where uploads read from.
pub struct Sources {
    files: Vec<SourceBytes>,
    tensors: Vec<HostTensor>,
    kind: SourceKind,
}

impl Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sources({}, {} files)", self.kind.name(), self.files.len())
    }
}

impl Sources {
    /// Opens the stretches of the checkpoint that are managed, one range a file (empty where nothing is).
    ///
    /// # Errors
    /// I/O errors with the path.
    pub fn open(
        checkpoint: Option<&Checkpoint>,
        managed: &[Range<u64>],
        tensors: Vec<HostTensor>,
        kind: SourceKind,
    ) -> Result<Sources> {
        let mut files = Vec::new();
        for (file, range) in checkpoint.map(|checkpoint| checkpoint.files().as_slice()).unwrap_or_default().iter().zip(managed) {
            let source = match kind {
                _ if range.is_empty() => SourceBytes::Unused,
                SourceKind::Ring | SourceKind::Retained | SourceKind::Staged => SourceBytes::Streamed(file.identity().bytes),
                SourceKind::Mapped => {
                    SourceBytes::Mapped(Arc::new(file.map().map_err(|error| Error::io("map", file.path(), error))?))
                }
                SourceKind::Cpu => {
                    let copy = read_copy(file, range.start, range.end - range.start);
                    let copy = copy.map_err(|error| Error::io("read", file.path(), error))?;
                    SourceBytes::Cpu { copy, from: range.start }
                }
            };
            files.push(source);
        }
        Ok(Sources { files, tensors, kind })
    }

    /// How file-backed tensors are held.
    pub fn kind(&self) -> SourceKind {
        self.kind
    }

    /// Host memory behind sources in host memory, in stretches of at most a segment on pages that nobody else uses: what can be
    /// registered where it lies. Each only once, in the order given.
    pub fn pinnable(&self, wanted: impl IntoIterator<Item = ParameterSource>) -> Vec<HostBytes> {
        let mut seen = BTreeSet::new();
        let mut stretches = Vec::new();
        for source in wanted {
            let whole = match source {
                ParameterSource::Memory { tensor } => self.tensors.get(tensor).map(HostTensor::lease),
                ParameterSource::File { file, .. } => match self.files.get(file) {
                    Some(SourceBytes::Cpu { copy, .. }) => Some(copy.clone()),
                    _ => None,
                },
            };
            let Some(whole) = whole.filter(|bytes| bytes.is_backed() && bytes.bytes() >= MIN_PINNED_BYTES) else { continue };
            if !seen.insert(whole.as_slice().as_ptr() as usize) {
                continue;
            }
            let starts = (0..whole.bytes()).step_by(REGISTRATION_SEGMENT_BYTES as usize);
            let piece = |start: u64| whole.stretch(start, REGISTRATION_SEGMENT_BYTES.min(whole.bytes() - start));
            stretches.extend(starts.filter_map(piece));
        }
        stretches
    }

    /// File bytes mapped into the process.
    pub fn mapped_bytes(&self) -> u64 {
        let mapped = self.files.iter().map(|file| if let SourceBytes::Mapped(file) = file { file.bytes() } else { 0 });
        mapped.sum()
    }

    /// A segment of a mapped file, cut at the file's end; `None` past the end or for a file that is not mapped.
    pub fn mapped_segment(&self, window: Window) -> Option<MappedSegment> {
        let SourceBytes::Mapped(map) = self.files.get(window.file)? else { return None };
        let offset = window.index.checked_mul(REGISTRATION_SEGMENT_BYTES)?;
        let bytes = map.bytes().checked_sub(offset)?.min(REGISTRATION_SEGMENT_BYTES);
        (bytes > 0).then(|| MappedSegment { window, file: Arc::clone(map), offset, bytes })
    }

    /// Where source bytes are found, in stretches that are each found in one way; `None` when they lie outside what was
    /// opened.
    pub fn origins(&self, source: ParameterSource, bytes: u64, registrations: &Registrations) -> Option<Vec<Origin>> {
        let whole = self.origin(source, bytes)?;
        let ParameterSource::File { file, offset } = source else { return Some(vec![whole]) };
        if !registrations.cut_copies() || !matches!(self.files.get(file)?, SourceBytes::Mapped(_)) {
            return Some(vec![whole]);
        }
        // Neighbouring segments of one kind stay one stretch.
        let mut stretches: Vec<(bool, Extent)> = Vec::new();
        let mut rest = Extent { file, offset, bytes };
        while rest.bytes > 0 {
            let window = Window { file, index: rest.offset / REGISTRATION_SEGMENT_BYTES };
            let (first, further) = rest.split_at(REGISTRATION_SEGMENT_BYTES - rest.offset % REGISTRATION_SEGMENT_BYTES);
            let is_direct = registrations.are_direct(window);
            match stretches.last_mut().filter(|(last, _)| *last == is_direct) {
                Some((_, last)) => last.bytes += first.bytes,
                None => stretches.push((is_direct, first)),
            }
            rest = further;
        }
        let origin = |(is_direct, extent): (bool, Extent)| match is_direct {
            true => whole.stretch(extent.offset - offset, extent.bytes),
            false => Some(Origin::Streamed(extent)),
        };
        stretches.into_iter().map(origin).collect()
    }

    /// Where source bytes are found; `None` when they lie outside what was opened.
    fn origin(&self, source: ParameterSource, bytes: u64) -> Option<Origin> {
        let held = match source {
            ParameterSource::Memory { tensor } => Some(self.tensors.get(tensor)?.lease()).filter(|lease| lease.bytes() == bytes),
            ParameterSource::File { file, offset } => match self.files.get(file)? {
                SourceBytes::Mapped(map) => {
                    let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::<MappedFile>::clone(map);
                    HostBytes::new(owner, offset, bytes)
                }
                SourceBytes::Cpu { copy, from } => copy.stretch(offset.checked_sub(*from)?, bytes),
                SourceBytes::Streamed(length) => {
                    let inside = offset.checked_add(bytes).is_some_and(|end| end <= *length);
                    return inside.then_some(Origin::Streamed(Extent { file, offset, bytes }));
                }
                SourceBytes::Unused => None,
            },
        };
        held.map(Origin::Held)
    }
}
