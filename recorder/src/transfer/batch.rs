//! One unit's upload: its copies, merged, built once and submitted again and again.

use crate::driver::{DeviceAddress, Driver, DriverResult, HostBytes, StreamId};
use crate::memory::Sources;
use crate::plan::ParameterSource;

/// One tensor of a unit, as the batch sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTensor {
    /// Where its bytes lie.
    pub source: ParameterSource,
    /// Where they go, relative to the unit's place.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

impl BatchTensor {
    /// Extends the copy by a tensor that continues it at the source and at the destination.
    fn merge(&mut self, next: &BatchTensor) -> bool {
        let continues = match (self.source, next.source) {
            (ParameterSource::File { file: a, offset: from }, ParameterSource::File { file: b, offset: to }) => {
                a == b && from + self.bytes == to
            }
            _ => false,
        };
        if !continues || self.offset + self.bytes != next.offset {
            return false;
        }
        self.bytes += next.bytes;
        true
    }
}

/// The copies of one unit.
#[derive(Debug)]
pub struct UnitBatch {
    copies: Vec<(u64, HostBytes)>,
    tensors: u64,
    file_tensors: u64,
    bytes: u64,
}

impl UnitBatch {
    /// Merges neighbouring tensors and takes leases on their bytes; `None` when a source lies outside what is open.
    pub fn new(tensors: &[BatchTensor], sources: &Sources) -> Option<UnitBatch> {
        let mut merged: Vec<BatchTensor> = Vec::new();
        for tensor in tensors.iter().filter(|tensor| tensor.bytes > 0) {
            if !merged.last_mut().is_some_and(|last| last.merge(tensor)) {
                merged.push(*tensor);
            }
        }
        let lease = |copy: &BatchTensor| Some((copy.offset, sources.lease(copy.source, copy.bytes)?));
        let copies = merged.iter().map(lease).collect::<Option<Vec<_>>>()?;
        let from_file = |tensor: &&BatchTensor| matches!(tensor.source, ParameterSource::File { .. });
        Some(UnitBatch {
            copies,
            tensors: tensors.len() as u64,
            file_tensors: tensors.iter().filter(from_file).count() as u64,
            bytes: tensors.iter().map(|tensor| tensor.bytes).sum(),
        })
    }

    /// Copies after merging.
    pub fn copies(&self) -> u64 {
        self.copies.len() as u64
    }

    /// Tensors that the batch carries.
    pub fn tensors(&self) -> u64 {
        self.tensors
    }

    /// Of those, tensors whose bytes lie in files.
    pub fn file_tensors(&self) -> u64 {
        self.file_tensors
    }

    /// Payload in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Queues all copies to the given place.
    ///
    /// # Errors
    /// The driver's, with the number of copies queued before it.
    pub fn submit(
        &self,
        driver: &dyn Driver,
        place: DeviceAddress,
        stream: StreamId,
    ) -> Result<(), (u64, crate::driver::DriverError)> {
        for (queued, (offset, bytes)) in self.copies.iter().enumerate() {
            let copied: DriverResult<()> = driver.copy_to_device(place.offset(*offset), bytes.clone(), stream);
            copied.map_err(|error| (queued as u64, error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(file: usize, from: u64, to: u64, bytes: u64) -> BatchTensor {
        BatchTensor { source: ParameterSource::File { file, offset: from }, offset: to, bytes }
    }

    #[test]
    fn only_neighbours_in_source_and_place_merge() {
        let first = tensor(0, 100, 0, 512);
        assert!(first.clone().merge(&tensor(0, 612, 512, 8)));
        assert!(!first.clone().merge(&tensor(1, 612, 512, 8)), "another file");
        assert!(!first.clone().merge(&tensor(0, 620, 512, 8)), "a gap at the source");
        assert!(!first.clone().merge(&tensor(0, 612, 1024, 8)), "a gap at the place");
    }
}
