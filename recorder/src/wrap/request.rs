//! "What was asked for?" The request as given, checked and completed into a plan.
//!
//! May use: std, schemas, the limits and the wrapper's errors.
//!
//! Invariants: command line > environment > default, and every effective setting knows where it came from; nothing is
//! touched on disk; a plan that exists is within all limits.

use super::error::WrapError;
use super::parse;
use super::words::{self, Redactor};
use crate::limits::MAX_USAGE_CHARS;
use ddo_schemas::settings::{ENV_SETTINGS, Settings};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// What the command line said; `None` and empty mean that it said nothing.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The journal folder.
    pub out: Option<PathBuf>,
    /// `full`, `rss` or `off`.
    pub memory_monitor: Option<String>,
    /// Pause between two memory queries, with its unit.
    pub interval: Option<String>,
    /// `steps` or `off`.
    pub journal: Option<String>,
    /// Markers on the compute stream.
    pub gpu_timing: bool,
    /// Native windows, with their capacity where one was given.
    pub native_timeline: Option<Option<u64>>,
    /// Waits at step boundaries.
    pub diagnostic_step_wait: bool,
    /// Counts and times of the driver's memory calls.
    pub allocation_diagnostics: bool,
    /// Generations with one loaded model.
    pub repeats: Option<u64>,
    /// Module whose forwards are sampled, with the calls where some were given: `MODULE[:i,j,..]`.
    pub operator_diagnostics: Option<String>,
    /// Component name.
    pub component: Option<String>,
    /// Labels as `KEY=VALUE`.
    pub labels: Vec<String>,
    /// A recording problem after a good command gives exit code 125.
    pub strict: bool,
    /// The command line stays out of the manifest.
    pub no_command_line: bool,
    /// Substrings to replace in what is recorded.
    pub redact: Vec<OsString>,
    /// Size of the folder at which recording stops, with its unit.
    pub disk_budget: Option<String>,
    /// A live line.
    pub status: bool,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// How memory is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// Private memory: anonymous pages, else the unique set.
    Full,
    /// Resident memory.
    Rss,
    /// Not at all.
    Off,
}

impl Monitor {
    /// The word in the manifest.
    pub const fn name(self) -> &'static str {
        match self {
            Monitor::Full => "full",
            Monitor::Rss => "rss",
            Monitor::Off => "off",
        }
    }
}

/// A checked request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The journal folder, where one was named.
    pub out: Option<PathBuf>,
    /// The memory monitor.
    pub monitor: Monitor,
    /// Pause between two memory queries.
    pub interval: Duration,
    /// Settings handed to an embedded recorder.
    pub settings: Settings,
    /// Where each setting came from.
    pub origins: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// A recording problem after a good command gives exit code 125.
    pub strict: bool,
    /// The command line stays out of the manifest.
    pub no_command_line: bool,
    /// Applied to everything that is recorded.
    pub redactor: Redactor,
    /// Size of the folder at which recording stops.
    pub disk_budget_bytes: Option<u64>,
    /// A live line.
    pub status: bool,
}

impl Request {
    /// Checks the request and completes it from `outer_settings`, the value of `DDO_RECORD_SETTINGS` around the recorder.
    ///
    /// # Errors
    /// The first thing that is unknown, contradictory or outside its limits.
    pub fn plan(self, outer_settings: Option<&OsStr>) -> Result<Plan, WrapError> {
        let mut origins = BTreeMap::new();
        let settings = self.settings(outer_settings, &mut origins)?;
        let monitor = parse::monitor(self.memory_monitor.as_deref())?;
        origins.insert("memory_monitor".into(), origin(self.memory_monitor.is_some()));
        let interval = parse::interval(self.interval.as_deref())?;
        origins.insert("memory_interval_seconds".into(), origin(self.interval.is_some()));
        let labels = parse::labels(&self.labels)?;
        let redactor = parse::redactor(&self.redact)?;
        let disk_budget_bytes = parse::disk_budget(self.disk_budget.as_deref())?;
        let names =
            labels.keys().map(|key| ("label key", key)).chain(settings.component.iter().map(|name| ("component name", name)));
        for (what, name) in names {
            if redactor.word(OsStr::new(name)) != OsStr::new(name) {
                return Err(WrapError::NameToRedact { what, got: name.clone() });
            }
        }
        let mut words = self.command.into_iter();
        let program = words.next().ok_or(WrapError::NoCommand)?;
        Ok(Plan {
            program,
            arguments: words.collect(),
            out: self.out,
            monitor,
            interval,
            settings,
            origins,
            labels,
            strict: self.strict,
            no_command_line: self.no_command_line,
            redactor,
            disk_budget_bytes,
            status: self.status,
        })
    }

    fn settings(&self, outer: Option<&OsStr>, origins: &mut BTreeMap<String, String>) -> Result<Settings, WrapError> {
        let base = match outer {
            Some(text) => outer_settings(text)?,
            None => Settings::default(),
        };
        let mut settings = Settings { schema_version: Settings::default().schema_version, ..base };
        let inherited = if outer.is_some() { "environment" } else { "default" };
        let mut from = |name: &str, given: bool, origin: &str| {
            origins.insert(name.into(), if given { "command_line".into() } else { origin.to_owned() });
        };
        from("journal", self.journal.is_some(), inherited);
        from("gpu_timing", self.gpu_timing, inherited);
        from("native_timeline", self.native_timeline.is_some(), inherited);
        from("native_timeline_capacity", self.native_timeline.flatten().is_some(), inherited);
        // What an outer object does not name is a default, as an absent component is.
        let outer = |named: bool| if named { inherited } else { "default" };
        from("diagnostic_step_wait", self.diagnostic_step_wait, outer(settings.diagnostic_step_wait.is_some()));
        from("allocation_diagnostics", self.allocation_diagnostics, outer(settings.allocation_diagnostics.is_some()));
        from("repeats", self.repeats.is_some(), outer(settings.repeats.is_some()));
        from(
            "operator_diagnostics",
            self.operator_diagnostics.is_some(),
            if settings.operator_diagnostics_module.is_some() { inherited } else { "default" },
        );
        if let Some(text) = &self.operator_diagnostics {
            let (module, invocations) = parse::operators(text)?;
            (settings.operator_diagnostics_module, settings.operator_diagnostics_invocations) = (Some(module), invocations);
        }
        // An absent component is a default, also where the outer object has other settings.
        from("component", self.component.is_some(), if settings.component.is_some() { inherited } else { "default" });
        if let Some(name) = &self.component {
            parse::check_component(name, "command_line")?;
            settings.component = Some(name.clone());
        } else if let Some(name) = &settings.component {
            parse::check_component(name, "environment")?;
        }
        if let Some(journal) = &self.journal {
            parse::check_journal(journal)?;
            settings.journal.clone_from(journal);
        }
        settings.gpu_timing |= self.gpu_timing;
        settings.native_timeline |= self.native_timeline.is_some();
        if let Some(capacity) = self.native_timeline.flatten() {
            settings.native_timeline_capacity = capacity;
        }
        if self.diagnostic_step_wait {
            settings.diagnostic_step_wait = Some(true);
        }
        if self.allocation_diagnostics {
            settings.allocation_diagnostics = Some(true);
        }
        settings.repeats = self.repeats.or(settings.repeats);
        settings.check()?;
        Ok(settings)
    }
}

fn origin(given: bool) -> String {
    if given { "command_line".into() } else { "default".into() }
}

fn outer_settings(text: &OsStr) -> Result<Settings, WrapError> {
    let bad = |reason: String| {
        let reason = words::cut(&reason, MAX_USAGE_CHARS);
        WrapError::SettingsVariable { variable: ENV_SETTINGS, reason }
    };
    let text = text.to_str().ok_or_else(|| bad("it is not UTF-8".into()))?;
    let settings: Settings = serde_json::from_str(text).map_err(|e| bad(format!("it is no settings object: {e}")))?;
    settings.check().map_err(|e| bad(e.to_string()))?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddo_schemas::settings::BadSettings;

    fn request() -> Request {
        Request { command: vec!["true".into()], ..Request::default() }
    }

    fn origin_of<'a>(plan: &'a Plan, name: &str) -> &'a str {
        plan.origins.get(name).expect("every setting has an origin")
    }

    #[test]
    fn command_line_beats_environment_beats_default() {
        let outer =
            r#"{"schema_version":1,"journal":"off","gpu_timing":true,"native_timeline":false,"native_timeline_capacity":7}"#;
        let plan = request().plan(Some(OsStr::new(outer))).expect("usable");
        assert_eq!((plan.settings.journal.as_str(), plan.settings.native_timeline_capacity), ("off", 7));
        assert_eq!(origin_of(&plan, "journal"), "environment");
        assert_eq!(origin_of(&plan, "component"), "default");
        assert_eq!(origin_of(&plan, "memory_monitor"), "default");
        let asked = Request { journal: Some("steps".into()), native_timeline: Some(None), ..request() };
        let plan = asked.plan(Some(OsStr::new(outer))).expect("gpu timing comes from the environment");
        assert_eq!((plan.settings.journal.as_str(), plan.settings.native_timeline), ("steps", true));
        assert_eq!(origin_of(&plan, "journal"), "command_line");
        assert_eq!(origin_of(&plan, "native_timeline_capacity"), "environment");
        let plan = request().plan(None).expect("defaults");
        assert_eq!(plan.settings, Settings::default());
        assert!(plan.origins.values().all(|o| o == "default"));
    }

    #[test]
    fn a_bad_outer_object_is_refused() {
        for text in [
            "",
            "{}",
            "[]",
            "{\"schema_version\":2,\"journal\":\"off\",\"gpu_timing\":true,\"native_timeline\":false,\"native_timeline_capacity\":7}",
        ] {
            let result = request().plan(Some(OsStr::new(text)));
            assert!(matches!(result, Err(WrapError::SettingsVariable { .. })), "{text}");
        }
    }

    #[test]
    fn switches_that_need_each_other_and_limits() {
        let with = |timing, timeline| Request { gpu_timing: timing, native_timeline: timeline, ..request() }.plan(None);
        assert!(matches!(with(false, Some(None)), Err(WrapError::Settings(BadSettings::TimelineWithoutTiming))));
        for capacity in [0, 8193, u64::MAX] {
            assert!(matches!(with(true, Some(Some(capacity))), Err(WrapError::Settings(BadSettings::Capacity { .. }))));
        }
        let wait = |timeline| Request { diagnostic_step_wait: true, gpu_timing: true, native_timeline: timeline, ..request() };
        assert!(matches!(wait(None).plan(None), Err(WrapError::Settings(BadSettings::StepWaitWithoutTimeline))));
        let plan = wait(Some(None)).plan(None).expect("all three");
        assert_eq!((plan.settings.diagnostic_step_wait, plan.settings.allocation_diagnostics), (Some(true), None));
        assert_eq!(
            (origin_of(&plan, "diagnostic_step_wait"), origin_of(&plan, "allocation_diagnostics")),
            ("command_line", "default")
        );
        for (repeats, fits) in [(0, false), (1, true), (1000, true), (1001, false)] {
            let plan = Request { repeats: Some(repeats), ..request() }.plan(None);
            match plan {
                Ok(plan) => assert!(fits && plan.settings.repeats == Some(repeats)),
                Err(WrapError::Settings(BadSettings::Repeats { got, limit: 1000 })) => assert!(!fits && got == repeats),
                Err(other) => panic!("{repeats}: {other}"),
            }
        }
        for capacity in [1, 8192] {
            assert_eq!(with(true, Some(Some(capacity))).expect("within").settings.native_timeline_capacity, capacity);
        }
    }

    #[test]
    fn names_and_labels_are_checked() {
        let long = "a".repeat(65);
        for name in ["", ".a", "a/b", "a b", "ä", long.as_str()] {
            let result = Request { component: Some(name.into()), ..request() }.plan(None);
            assert!(matches!(result, Err(WrapError::Component { .. })), "{name}");
        }
        let labels = |texts: &[&str]| parse::labels(&texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            labels(&["a=1=2", "b="]).expect("valid"),
            BTreeMap::from([("a".into(), "1=2".into()), ("b".into(), "".into())])
        );
        assert!(matches!(labels(&["a=1", "a=2"]), Err(WrapError::LabelTwice { .. })));
        for text in ["a", "=b", "a b=c", ""] {
            assert!(matches!(labels(&[text]), Err(WrapError::Label { .. })), "{text}");
        }
        let many = vec!["a=1"; 65];
        assert!(matches!(labels(&many), Err(WrapError::TooMany { got: 65, limit: 64, .. })));
    }

    #[test]
    fn monitor_words_are_a_closed_set() {
        let ask = |word: &str| Request { memory_monitor: Some(word.into()), ..request() }.plan(None);
        assert!(matches!(ask("everything"), Err(WrapError::UnknownWord { .. })));
        for (word, monitor) in [("full", Monitor::Full), ("rss", Monitor::Rss), ("off", Monitor::Off)] {
            let plan = ask(word).expect("known");
            assert_eq!((plan.monitor, plan.monitor.name()), (monitor, word));
        }
    }
}
