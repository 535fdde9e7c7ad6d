//! Collection settings handed from `ddo-record` to an embedded recorder as one JSON object.

use crate::section;
use crate::unit::Unit;
use crate::version;

/// Variable that names the journal folder (absolute).
pub const ENV_DIR: &str = "DDO_RECORD_DIR";
/// Variable that holds [`Settings`] as JSON.
pub const ENV_SETTINGS: &str = "DDO_RECORD_SETTINGS";
/// Samples of a native timeline unless told otherwise.
pub const DEFAULT_TIMELINE_CAPACITY: u64 = 4096;
/// The most samples of a native timeline.
pub const MAX_TIMELINE_CAPACITY: u64 = 8192;
/// The most generations with one loaded model; each leaves a report.
pub const MAX_GENERATIONS: u64 = 1000;

section! {
    /// What the wrapper asks an embedded recorder to collect. A host that says off wins.
    pub struct Settings at "settings" {
        schema_version: u32 = Unit::Version, Version, Scope, "start",
            "Version of the settings object.",
            "A recorder refuses a newer version.";
        journal: String = Unit::Label, Label, Scope, "start",
            "`steps`: one record a step; `off`: none.",
            "Turn it off to measure without disk writes.";
        gpu_timing: bool = Unit::Flag, Flag, Scope, "start",
            "Whether the host's timer records markers on the compute stream.",
            "Needed for step times.";
        native_timeline: bool = Unit::Flag, Flag, Scope, "start",
            "Whether native windows are recorded; needs the timer.",
            "Needed for the trace's stream tracks.";
        native_timeline_capacity: u64 = Unit::Count("samples"), Limit, Scope, "start",
            "Windows that fit, 1 to 8192.",
            "Raise it when the timeline is truncated.";
        diagnostic_step_wait: Option<bool> = Unit::Flag, Flag, Scope, "start",
            "Whether the host waits for the compute stream after every step; needs the timer and native windows.",
            "Leave it out to measure speed: it changes the rhythm that is measured.";
        allocation_diagnostics: Option<bool> = Unit::Flag, Flag, Scope, "start",
            "Whether the driver's memory calls are counted and timed.",
            "Leave it out to measure speed: each call is timed.";
        repeats: Option<u64> = Unit::Count("generations"), Limit, Scope, "start",
            "Generations that a host runs with the model it loaded once, 1 to 1000; the host's own number without it.",
            "The first one is cold; compare the others.";
        component: Option<String> = Unit::Label, Label, Scope, "start",
            "Component name asked for by the wrapper.",
            "Used as the folder name of the records.";
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            schema_version: version::SETTINGS,
            journal: "steps".into(),
            gpu_timing: false,
            native_timeline: false,
            native_timeline_capacity: DEFAULT_TIMELINE_CAPACITY,
            diagnostic_step_wait: None,
            allocation_diagnostics: None,
            repeats: None,
            component: None,
        }
    }
}

/// Most characters of a component name; it becomes a folder name.
pub const MAX_COMPONENT_CHARS: usize = 64;

/// True for a name that may become a folder name: 1 to [`MAX_COMPONENT_CHARS`] of A-Z, a-z, 0-9, `.`, `_`, `-`,
/// without a leading dot.
pub fn is_component_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=MAX_COMPONENT_CHARS).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
}

/// A settings object that contradicts itself or leaves its limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// Newer than this build.
    #[error(transparent)]
    TooNew(#[from] version::TooNew),
    /// Neither `steps` nor `off`.
    #[error("journal is {0:?}; it must be \"steps\" or \"off\"")]
    Journal(String),
    /// A switch without the one that it depends on.
    #[error("native_timeline needs gpu_timing; turn both on")]
    TimelineWithoutTiming,
    /// Waits at steps without the windows that show what they change.
    #[error("diagnostic_step_wait needs gpu_timing and native_timeline; turn all three on")]
    StepWaitWithoutTimeline,
    /// A number of generations outside its limits.
    #[error("repeats is {got}; it must be 1 to {limit}")]
    Repeats {
        /// What was asked for.
        got: u64,
        /// The most that is possible.
        limit: u64,
    },
    /// A component name that cannot be a folder name.
    #[error("component is {0:?}; it must be 1 to {MAX_COMPONENT_CHARS} characters of A-Z a-z 0-9 . _ - and not start with a dot")]
    Component(String),
    /// Outside the limits.
    #[error("native_timeline_capacity is {got}; it must be 1 to {limit}")]
    Capacity {
        /// What was asked for.
        got: u64,
        /// The most that is possible.
        limit: u64,
    },
}

impl Settings {
    /// Checks the limits and the dependencies between switches.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), BadSettings> {
        version::check("the settings object", u64::from(self.schema_version), version::SETTINGS)?;
        if self.journal != "steps" && self.journal != "off" {
            return Err(BadSettings::Journal(self.journal.clone()));
        }
        if let Some(name) = self.component.as_ref().filter(|name| !is_component_name(name)) {
            return Err(BadSettings::Component(name.clone()));
        }
        if self.native_timeline && !self.gpu_timing {
            return Err(BadSettings::TimelineWithoutTiming);
        }
        if self.diagnostic_step_wait == Some(true) && !self.native_timeline {
            return Err(BadSettings::StepWaitWithoutTimeline);
        }
        if let Some(got) = self.repeats.filter(|repeats| !(1..=MAX_GENERATIONS).contains(repeats)) {
            return Err(BadSettings::Repeats { got, limit: MAX_GENERATIONS });
        }
        if !(1..=MAX_TIMELINE_CAPACITY).contains(&self.native_timeline_capacity) {
            return Err(BadSettings::Capacity { got: self.native_timeline_capacity, limit: MAX_TIMELINE_CAPACITY });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_name_never_leaves_its_folder() {
        for bad in ["", ".", "..", "../../evil", "/tmp/evil", "a/b", ".hidden", "a b", "\u{e9}", &"x".repeat(65)] {
            let settings = Settings { component: Some(bad.into()), ..Settings::default() };
            assert_eq!(settings.check(), Err(BadSettings::Component(bad.into())));
        }
        assert_eq!(Settings { component: Some("text_encoder-2.1".into()), ..Settings::default() }.check(), Ok(()));
    }
}
