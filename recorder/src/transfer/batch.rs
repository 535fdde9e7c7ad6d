//! One part's upload: its copies, merged, built once and submitted again and again.

use super::{Staged, Stopped, Supply};
use crate::driver::{DeviceAddress, Driver, StreamId};
use crate::error::Error;
use crate::memory::{Consumer, Extent, Origin, Registrations, Sources};
use crate::plan::{self, BatchTensor, ParameterSource, cut_at_fences, merged};

/// A fence of the session.
type Fence = plan::Fence<Consumer>;

/// Who brings the bytes of copies to the device.
#[derive(Debug)]
pub enum Carrier<'a> {
    /// The device reads them where they are held.
    Direct,
    /// What is not held is read first.
    Supply(&'a mut Supply),
    /// All of them pass through staging slots.
    Staged(&'a mut Staged),
}

impl Carrier<'_> {
    fn carry(&mut self, driver: &dyn Driver, origin: &Origin, to: DeviceAddress, stream: StreamId) -> Result<u64, Stopped> {
        match (origin, self) {
            (Origin::Streamed(extent), Carrier::Supply(supply)) => supply.supply(*extent, to),
            (Origin::Streamed(extent), Carrier::Staged(staged)) => staged.send_file(*extent, to),
            (Origin::Held(bytes), Carrier::Staged(staged)) => staged.send_held(bytes, to),
            (Origin::Held(bytes), carrier @ (Carrier::Direct | Carrier::Supply(_))) => {
                let copied = driver.copy_to_device(to, bytes.clone(), stream);
                copied.map_err(|error| Stopped { queued: 0, error: error.into() })?;
                if let Carrier::Supply(supply) = carrier {
                    supply.book().mapped_bytes.add(bytes.bytes());
                }
                Ok(1)
            }
            (Origin::Streamed(_), Carrier::Direct) => {
                let error = Error::invalid("source bytes", "nobody reads them");
                Err(Stopped { queued: 0, error })
            }
        }
    }
}

/// Copies that may start together.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Who must have read before: the upload stream waits for them first.
    pub consumers: Vec<Consumer>,
    copies: Vec<(u64, Origin)>,
}

impl Stage {
    /// Payload in bytes.
    pub fn bytes(&self) -> u64 {
        self.copies.iter().map(|(_, origin)| origin.bytes()).sum()
    }

    /// Queues the copies to the given place; their number.
    ///
    /// # Errors
    /// The driver's and the carrier's, with the number of copies queued before.
    ///
    /// # Cost
    /// Waits where bytes have to be read first.
    pub fn submit(
        &self,
        driver: &dyn Driver,
        place: DeviceAddress,
        stream: StreamId,
        carrier: &mut Carrier<'_>,
    ) -> Result<u64, Stopped> {
        let mut queued = 0;
        for (offset, origin) in &self.copies {
            let sent = carrier.carry(driver, origin, place.offset(*offset), stream);
            queued += sent.map_err(|stopped| Stopped { queued: queued + stopped.queued, ..stopped })?;
        }
        Ok(queued)
    }
}

/// The copies of one part.
#[derive(Debug)]
pub struct PartBatch {
    copies: Vec<(u64, Origin)>,
    extents: Vec<Extent>,
    /// Where each tensor with such bytes begins among them.
    starts: Vec<u64>,
    tensors: u64,
    file_tensors: u64,
    bytes: u64,
}

impl PartBatch {
    /// Merges neighbouring tensors and takes leases on their bytes, as far as they are registered where only such bytes are
    /// copied directly; `None` when a source lies outside what is open.
    pub fn new(tensors: &[BatchTensor], sources: &Sources, registrations: &Registrations) -> Option<PartBatch> {
        let mut copies: Vec<(u64, Origin)> = Vec::new();
        for copy in &merged(tensors) {
            let mut to = copy.offset;
            for origin in sources.origins(copy.source, copy.bytes, registrations)? {
                let bytes = origin.bytes();
                copies.push((to, origin));
                to += bytes;
            }
        }
        let streamed = |(_, origin): &(u64, Origin)| match origin {
            Origin::Streamed(extent) => Some(*extent),
            Origin::Held(_) => None,
        };
        let from_file = |tensor: &&BatchTensor| matches!(tensor.source, ParameterSource::File { .. });
        let extents: Vec<Extent> = copies.iter().filter_map(streamed).collect();
        let read = if extents.is_empty() { &[] } else { tensors };
        let (mut starts, mut before) = (Vec::new(), 0u64);
        for tensor in read.iter().filter(|tensor| tensor.bytes > 0) {
            let origins = sources.origins(tensor.source, tensor.bytes, registrations)?;
            let bytes = origins.iter().filter(|origin| matches!(origin, Origin::Streamed(_))).map(Origin::bytes).sum::<u64>();
            starts.extend((bytes > 0).then_some(before));
            before += bytes;
        }
        Some(PartBatch {
            starts,
            extents,
            copies,
            tensors: tensors.len() as u64,
            file_tensors: tensors.iter().filter(from_file).count() as u64,
            bytes: tensors.iter().map(|tensor| tensor.bytes).sum(),
        })
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

    /// Bytes that have to be read from files, in the order of the copies.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Tensors with bytes that have to be read, by where their first one lies among those of [`PartBatch::extents`].
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// The copies in stages: what is behind a fence waits for it, what is before it does not. A stage of fewer than
    /// `least` bytes is not worth a copy of its own: its successor's fences are waited for with its own.
    pub fn stages(&self, fences: &[Fence], least: u64) -> Vec<Stage> {
        let end = self.copies.iter().map(|(offset, bytes)| offset + bytes.bytes()).max().unwrap_or_default();
        let stage = |cut: plan::Cut<Consumer>| {
            let copies = self.copies.iter().filter_map(|(offset, bytes)| {
                let (first, length) = cut.of_copy(*offset, bytes.bytes())?;
                Some((first, bytes.stretch(first - offset, length)?))
            });
            Stage { copies: copies.collect(), consumers: cut.consumers }
        };
        cut_at_fences(end, fences, least).into_iter().map(stage).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::HostBytes;

    fn batch(copies: &[(u64, u64)]) -> PartBatch {
        let copies =
            copies.iter().map(|(offset, bytes)| (*offset, Origin::Held(HostBytes::unbacked(*bytes).expect("counted")))).collect();
        PartBatch { copies, extents: Vec::new(), starts: Vec::new(), tensors: 0, file_tensors: 0, bytes: 0 }
    }

    fn fence(from: u64, event: u64) -> Fence {
        let consumer = Consumer { stream: StreamId(1), event: crate::driver::EventId(event) };
        Fence { from, consumer }
    }

    /// Events waited for, then offsets and bytes of copies.
    type Shape = (Vec<u64>, Vec<(u64, u64)>);

    fn shape(stages: &[Stage]) -> Vec<Shape> {
        let events = |stage: &Stage| stage.consumers.iter().map(|consumer| consumer.event.0).collect();
        let copies = |stage: &Stage| stage.copies.iter().map(|(offset, origin)| (*offset, origin.bytes())).collect();
        stages.iter().map(|stage| (events(stage), copies(stage))).collect()
    }

    #[test]
    fn copies_are_cut_at_fences_and_small_stages_wait_early() {
        let batch = batch(&[(0, 100), (128, 100)]);
        assert_eq!(shape(&batch.stages(&[], 10)), [(vec![], vec![(0, 100), (128, 100)])]);
        let fences = [fence(150, 3), fence(0, 1), fence(50, 2)];
        let cut = [(vec![1], vec![(0, 50)]), (vec![2], vec![(50, 50), (128, 22)]), (vec![3], vec![(150, 78)])];
        assert_eq!(shape(&batch.stages(&fences, 10)), cut);
        let early = [(vec![1, 2], vec![(0, 100), (128, 22)]), (vec![3], vec![(150, 78)])];
        assert_eq!(shape(&batch.stages(&fences, 60)), early, "the first 50 bytes are too few for a stage");
        assert_eq!(shape(&batch.stages(&fences, 1000)), [(vec![1, 2, 3], vec![(0, 100), (128, 100)])]);
        assert_eq!(shape(&batch.stages(&[fence(0, 1), fence(90, 1)], 10)).len(), 2, "the same consumer twice");
    }
}
