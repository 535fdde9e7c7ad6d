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
        operator_diagnostics_module: Option<String> = Unit::Text, Label, Scope, "start",
            "Module whose forwards are to be sampled; absent: no operator diagnostics.",
            "Name a module that the host announces.";
        operator_diagnostics_invocations: Option<Vec<u64>> = Unit::Index, Identity, Scope, "start",
            "Which of its calls, from 0: one to four different ones, at most 31; absent: 0 and 2.",
            "Skip the first call to leave out warm-up.";
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
            operator_diagnostics_module: None,
            operator_diagnostics_invocations: None,
            component: None,
        }
    }
}

/// Calls of a module that one scope of operator diagnostics samples at most.
pub const MAX_OPERATOR_INVOCATIONS: usize = 4;
/// Index of the last call that can be sampled.
pub const LAST_OPERATOR_INVOCATION: u64 = 31;
/// Calls that are sampled unless told otherwise: the first, and one behind the warm-up.
pub const DEFAULT_OPERATOR_INVOCATIONS: [u64; 2] = [0, 2];

/// What cannot be sampled by operator diagnostics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOperators {
    /// No module is named.
    #[error("operator diagnostics need the path of one module; none is given")]
    NoModule,
    /// No call, or too many.
    #[error("operator diagnostics got {got} invocations; 1 to {limit} can be sampled")]
    Count {
        /// How many were given.
        got: usize,
        /// The most.
        limit: usize,
    },
    /// The same call twice.
    #[error("operator diagnostics got invocation {index} twice")]
    Twice {
        /// The call.
        index: u64,
    },
    /// A call too far in.
    #[error("operator diagnostics got invocation {got}; the last that can be sampled is {limit}")]
    Index {
        /// The call.
        got: u64,
        /// The last one.
        limit: u64,
    },
}

/// Checks what operator diagnostics are to sample.
///
/// # Errors
/// The first thing that is missing or outside its limits.
pub fn check_operators(module: &str, invocations: &[u64]) -> Result<(), BadOperators> {
    if module.is_empty() {
        return Err(BadOperators::NoModule);
    }
    if !(1..=MAX_OPERATOR_INVOCATIONS).contains(&invocations.len()) {
        return Err(BadOperators::Count { got: invocations.len(), limit: MAX_OPERATOR_INVOCATIONS });
    }
    for (at, index) in invocations.iter().copied().enumerate() {
        if index > LAST_OPERATOR_INVOCATION {
            return Err(BadOperators::Index { got: index, limit: LAST_OPERATOR_INVOCATION });
        }
        if invocations.iter().take(at).any(|earlier| *earlier == index) {
            return Err(BadOperators::Twice { index });
        }
    }
    Ok(())
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
    /// Operators that cannot be sampled.
    #[error(transparent)]
    Operators(#[from] BadOperators),
    /// Calls to sample of no module.
    #[error("operator_diagnostics_invocations needs operator_diagnostics_module")]
    InvocationsWithoutModule,
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
        match (&self.operator_diagnostics_module, &self.operator_diagnostics_invocations) {
            (Some(module), invocations) => {
                check_operators(module, invocations.as_deref().unwrap_or(&DEFAULT_OPERATOR_INVOCATIONS))?;
            }
            (None, Some(_)) => return Err(BadSettings::InvocationsWithoutModule),
            (None, None) => {}
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
    fn operators_are_sampled_within_their_limits() {
        assert_eq!(check_operators("a", &[31, 0, 7, 2]), Ok(()));
        for (module, invocations, bad) in [
            ("", &[0][..], BadOperators::NoModule),
            ("a", &[], BadOperators::Count { got: 0, limit: 4 }),
            ("a", &[0, 1, 2, 3, 4], BadOperators::Count { got: 5, limit: 4 }),
            ("a", &[1, 0, 1], BadOperators::Twice { index: 1 }),
            ("a", &[32], BadOperators::Index { got: 32, limit: 31 }),
        ] {
            assert_eq!(check_operators(module, invocations), Err(bad));
        }
        let orphan = Settings { operator_diagnostics_invocations: Some(vec![1]), ..Settings::default() };
        assert_eq!(orphan.check(), Err(BadSettings::InvocationsWithoutModule));
    }

    #[test]
    fn a_component_name_never_leaves_its_folder() {
        for bad in ["", ".", "..", "../../evil", "/tmp/evil", "a/b", ".hidden", "a b", "\u{e9}", &"x".repeat(65)] {
            let settings = Settings { component: Some(bad.into()), ..Settings::default() };
            assert_eq!(settings.check(), Err(BadSettings::Component(bad.into())));
        }
        assert_eq!(Settings { component: Some("text_encoder-2.1".into()), ..Settings::default() }.check(), Ok(()));
    }
}
