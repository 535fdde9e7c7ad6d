//! A trace in memory: tracks, names and events, before they are put in order.
//!
//! Uses the generated structs for descriptors. Invariants: a track has a described parent; names are interned once;
//! an event is a slice with both ends, an instant or a counter value, never half a slice.

use super::protos::{
    CounterDescriptor, ProcessDescriptor, TrackDescriptor, counter_descriptor,
    track_descriptor::{self, ChildTracksOrdering, SiblingMergeBehavior},
};
use crate::run::shorten;
use ddo_schemas::Unit;
use std::collections::HashMap;

/// Strings that are written once and then meant by a number from one on.
#[derive(Debug, Default)]
pub(super) struct Interner {
    ids: HashMap<String, u64>,
    /// In the order of their numbers.
    pub(super) strings: Vec<String>,
}

impl Interner {
    /// The number of a string.
    pub(super) fn id(&mut self, text: &str) -> u64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        self.strings.push(shorten(text));
        let id = self.strings.len() as u64;
        self.ids.insert(text.to_string(), id);
        id
    }

    /// The number of a text that is known to be new, or so long that looking for it is not worth it.
    pub(super) fn push(&mut self, text: String) -> u64 {
        self.strings.push(text);
        self.strings.len() as u64
    }
}

/// The value of an annotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Note {
    /// An unsigned number.
    Number(u64),
    /// An interned string.
    Text(u64),
}

/// What an event carries besides name and track.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Extra {
    /// Annotations: interned name and value.
    pub(super) notes: Vec<(u64, Note)>,
    /// Arrows that pass through or start here.
    pub(super) flows: Vec<u64>,
    /// Arrows that end here.
    pub(super) last_flows: Vec<u64>,
}

/// A slice with both ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    /// Track uuid.
    pub(super) track: u64,
    /// First nanosecond, at least 1.
    pub(super) start: u64,
    /// Last, not before the first.
    pub(super) end: u64,
    /// Open slices around it on its track.
    pub(super) depth: usize,
    /// Interned name.
    pub(super) name: u64,
    /// Interned category.
    pub(super) category: u64,
    /// Order among slices that start together on different tracks.
    pub(super) rank: u8,
    /// Annotations and flows.
    pub(super) extra: Extra,
}

/// A moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instant {
    /// Track uuid.
    pub(super) track: u64,
    /// Nanosecond, at least 1.
    pub(super) at: u64,
    /// Interned name.
    pub(super) name: u64,
    /// Interned category.
    pub(super) category: u64,
    /// Annotations.
    pub(super) extra: Extra,
}

/// A value of a counter track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Track uuid.
    pub(super) track: u64,
    /// Nanosecond, at least 1.
    pub(super) at: u64,
    /// The value.
    pub(super) value: i64,
}

/// Everything of one trace.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Descriptors; parents come before their children, and a track's uuid is its position plus one.
    pub(super) tracks: Vec<TrackDescriptor>,
    ranks: HashMap<u64, i32>,
    /// Event names.
    pub(super) names: Interner,
    /// Event categories.
    pub(super) categories: Interner,
    /// Names of annotations.
    pub(super) note_names: Interner,
    /// Text values of annotations.
    pub(super) note_texts: Interner,
    /// Slices.
    pub(super) slices: Vec<Slice>,
    /// Instants.
    pub(super) instants: Vec<Instant>,
    /// Counter values.
    pub(super) points: Vec<Point>,
    /// Facts about the whole trace.
    pub(super) attributes: Vec<(String, String)>,
    /// Arrows.
    pub(super) flows: u64,
    /// Fields that are zero in every record, whose tracks were left out.
    pub(super) constant_zero: Vec<String>,
    /// Parent of the data quality track.
    home: u64,
    quality: Option<u64>,
}

impl Model {
    fn add(&mut self, mut track: TrackDescriptor) -> u64 {
        let uuid = self.tracks.len() as u64 + 1;
        track.uuid = Some(uuid);
        self.tracks.push(track);
        uuid
    }

    /// The next place among the children of a track.
    fn next_rank(&mut self, parent: u64) -> i32 {
        let rank = self.ranks.entry(parent).or_insert(0);
        *rank += 1;
        *rank
    }

    /// The process that stands for a run, by the run's number from zero.
    pub(super) fn process(&mut self, number: usize, name: &str, labels: Vec<String>) -> u64 {
        let process = ProcessDescriptor {
            pid: Some(i32::try_from(number).unwrap_or(i32::MAX).saturating_add(1)),
            process_name: Some(shorten(name)),
            process_labels: labels.iter().map(|label| shorten(label)).collect(),
        };
        self.add(TrackDescriptor { process: Some(process), ..TrackDescriptor::default() })
    }

    /// A process beside the run's, with a number of its own.
    pub(super) fn other_process(&mut self, name: &str) -> u64 {
        // The run is number 1; a number is unique as the track's uuid is.
        let pid = i32::try_from(self.tracks.len() + 1).unwrap_or(i32::MAX);
        let process = ProcessDescriptor { pid: Some(pid), process_name: Some(shorten(name)), process_labels: Vec::new() };
        let mut track = TrackDescriptor { process: Some(process), ..TrackDescriptor::default() };
        track.set_child_ordering(ChildTracksOrdering::Explicit);
        self.add(track)
    }

    /// A counter track whose unit nothing says.
    pub(super) fn plain_counter(&mut self, parent: u64, name: &str, description: &str) -> u64 {
        let mut track = self.child(parent, name, description);
        track.counter = Some(CounterDescriptor::default());
        self.add(track)
    }

    /// A plain track, the next child of its parent.
    pub(super) fn track(&mut self, parent: u64, name: &str, description: &str) -> u64 {
        let mut track = self.child(parent, name, description);
        track.set_child_ordering(ChildTracksOrdering::Explicit);
        self.add(track)
    }

    /// The track under which everything of the run hangs.
    pub(super) fn root(&mut self, process: u64, name: &str, description: &str) -> u64 {
        self.home = self.track(process, name, description);
        self.quality = None;
        self.home
    }

    /// An instant on the data quality track, which exists from the first one on and stands before its siblings.
    pub(super) fn doubt(&mut self, at: u64, name: &str, notes: Vec<(u64, Note)>) {
        let track = match self.quality {
            Some(track) => track,
            None => {
                let text = "What is missing, failed or doubtful. Never a duration.";
                let mut track = self.child(self.home, "data quality", text);
                track.sibling_order_rank = Some(0);
                self.add(track)
            }
        };
        self.quality = Some(track);
        self.instant(track, at, name, "data_quality", notes);
    }

    /// One of several tracks that are shown as one because their slices straddle.
    pub(super) fn lane(&mut self, parent: u64, name: &str, description: &str, key: &str) -> u64 {
        let mut track = self.child(parent, name, description);
        track.set_sibling_merge_behavior(SiblingMergeBehavior::BySiblingMergeKey);
        track.sibling_merge_key_field = Some(track_descriptor::SiblingMergeKeyField::SiblingMergeKey(key.to_string()));
        self.add(track)
    }

    /// A counter track.
    pub(super) fn counter(&mut self, parent: u64, name: &str, unit: Unit, description: &str) -> u64 {
        let mut counter = CounterDescriptor::default();
        match unit {
            Unit::Bytes => counter.set_unit(counter_descriptor::Unit::SizeBytes),
            Unit::Seconds => counter.set_unit(counter_descriptor::Unit::TimeNs),
            // Readers show the name only where the unit is not one of theirs.
            other => counter.unit_name = Some(other.name().to_string()),
        }
        let mut track = self.child(parent, name, description);
        track.counter = Some(counter);
        self.add(track)
    }

    fn child(&mut self, parent: u64, name: &str, description: &str) -> TrackDescriptor {
        TrackDescriptor {
            parent_uuid: Some(parent),
            sibling_order_rank: Some(self.next_rank(parent)),
            static_or_dynamic_name: Some(track_descriptor::StaticOrDynamicName::Name(shorten(name))),
            description: (!description.is_empty()).then(|| description.to_string()),
            ..TrackDescriptor::default()
        }
    }

    /// An annotation with a number.
    pub(super) fn number(&mut self, name: &str, value: u64) -> (u64, Note) {
        (self.note_names.id(name), Note::Number(value))
    }

    /// An annotation with text.
    pub(super) fn text(&mut self, name: &str, value: &str) -> (u64, Note) {
        (self.note_names.id(name), Note::Text(self.note_texts.id(value)))
    }

    /// Adds an instant.
    pub(super) fn instant(&mut self, track: u64, at: u64, name: &str, category: &str, notes: Vec<(u64, Note)>) {
        let name = self.names.id(name);
        let category = self.categories.id(category);
        self.instants.push(Instant { track, at, name, category, extra: Extra { notes, ..Extra::default() } });
    }
}
