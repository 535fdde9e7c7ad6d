//! The recording that a wrapper asked for: where to write, and what to collect.

use super::folder::claim_dir;
use super::host_events::{DISK_STOP_FILE, append, event};
use super::journal::{make_folder, to_json};
use super::operators::OperatorOptions;
use super::publish::{PublishError, publish_new};
use crate::error::{Error, Result};
use crate::limits::{MAX_NAME_CLAIMS, MAX_PHASE_CHARS, MAX_SETTINGS_BYTES};
use ddo_schemas::Report;
use ddo_schemas::memory::HostEvent;
use ddo_schemas::settings::{BadSettings, ENV_DIR, ENV_SETTINGS, Settings, is_component_name};
use std::path::{Path, PathBuf};

/// A run folder and the settings handed over with it. A host that says off wins over these wishes.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRun {
    folder: PathBuf,
    settings: Settings,
}

impl RecordRun {
    /// Reads `DDO_RECORD_DIR` and `DDO_RECORD_SETTINGS`; `None` when no wrapper is there.
    ///
    /// # Errors
    /// [`Error::Settings`] naming the variable, for a folder that is not absolute or settings that cannot be used.
    pub fn from_env() -> Result<Option<RecordRun>> {
        let Some(folder) = std::env::var_os(ENV_DIR) else { return Ok(None) };
        let settings = match std::env::var(ENV_SETTINGS) {
            Ok(text) => Some(text),
            Err(std::env::VarError::NotPresent) => None,
            Err(error) => return Err(Error::Settings { variable: ENV_SETTINGS, reason: error.to_string() }),
        };
        RecordRun::new(PathBuf::from(folder), settings.as_deref()).map(Some)
    }

    /// A run in the given absolute folder, with settings as JSON or the defaults.
    ///
    /// # Errors
    /// As [`RecordRun::from_env`].
    pub fn new(folder: PathBuf, settings: Option<&str>) -> Result<RecordRun> {
        if !folder.is_absolute() {
            let reason = format!("{} is not an absolute path", folder.display());
            return Err(Error::Settings { variable: ENV_DIR, reason });
        }
        let bad = |reason: String| Error::Settings { variable: ENV_SETTINGS, reason };
        let settings = match settings {
            Some(text) if text.len() > MAX_SETTINGS_BYTES => {
                return Err(bad(format!("{} bytes, the limit is {MAX_SETTINGS_BYTES}", text.len())));
            }
            Some(text) => serde_json::from_str(text).map_err(|error| bad(error.to_string()))?,
            None => Settings::default(),
        };
        settings.check().map_err(|error| bad(error.to_string()))?;
        Ok(RecordRun { folder, settings })
    }

    /// What the wrapper asks to collect.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The run folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Claims a folder for the records of a component: `snapshots/NAME`, else `snapshots/NAME.2` and so on. The
    /// wrapper's component name, where given, takes the place of the host's.
    ///
    /// # Errors
    /// I/O errors with their path.
    pub fn journal_folder(&self, component: &str) -> Result<PathBuf> {
        let snapshots = self.folder.join("snapshots");
        make_folder(&snapshots)?;
        let name = self.settings.component.as_deref().unwrap_or(component);
        let claimed = claim_dir(&snapshots, name)
            .map_err(|error| Error::io("claim a folder in", &snapshots, std::io::Error::other(error)))?;
        self.tell(&HostEvent { component: Some(component.into()), folder: Some(self.relative(&claimed)), ..event("component") })?;
        Ok(claimed)
    }

    /// Claims a folder for the traces of a scope of operator diagnostics: `operators`, else `operators.2` and so on.
    ///
    /// # Errors
    /// I/O errors with their path.
    pub fn operators_folder(&self) -> Result<PathBuf> {
        claim_dir(&self.folder, "operators")
            .map_err(|error| Error::io("claim a folder in", &self.folder, std::io::Error::other(error)))
    }

    /// The scope of operator diagnostics that the wrapper asks for; disabled where it asks for none, and no folder is claimed then.
    ///
    /// # Errors
    /// I/O errors with their path.
    pub fn operator_options(&self) -> Result<OperatorOptions> {
        let Some(module) = &self.settings.operator_diagnostics_module else { return Ok(OperatorOptions::default()) };
        let usual = OperatorOptions::default();
        Ok(OperatorOptions {
            enabled: true,
            module_path: Some(module.clone()),
            invocations: self.settings.operator_diagnostics_invocations.clone().unwrap_or(usual.invocations),
            output_dir: Some(self.operators_folder()?),
            use_cuda: true,
        })
    }

    /// The file that appears when the wrapper's disk budget is reached; for
    /// [`MetricsJournal::stopped_by`](super::MetricsJournal::stopped_by).
    pub fn stop_file(&self) -> PathBuf {
        self.folder.join(DISK_STOP_FILE)
    }

    /// Begins a phase: the wrapper's memory samples from now on belong to it, until the next one begins.
    ///
    /// # Errors
    /// [`Error::Settings`] for a name that is empty, too long or has control characters; I/O errors with their path.
    pub fn phase(&self, name: &str) -> Result<()> {
        let length = name.chars().count();
        if !(1..=MAX_PHASE_CHARS).contains(&length) || name.chars().any(char::is_control) {
            let reason =
                format!("a phase's name has 1 to {MAX_PHASE_CHARS} characters, none of them a control character; got {name:?}");
            return Err(Error::Settings { variable: "phase", reason });
        }
        self.tell(&HostEvent { phase: Some(name.into()), ..event("phase") })
    }

    /// Adds a report about a component to the run, beside those of other components and processes.
    ///
    /// # Errors
    /// [`Error::Settings`] for a component name that cannot be a file name; otherwise as [`RecordRun::write_report`].
    pub fn record_ddo_metrics(&self, report: &Report, component: &str) -> Result<PathBuf> {
        if !is_component_name(component) {
            let reason = BadSettings::Component(component.into()).to_string();
            return Err(Error::Settings { variable: "component", reason });
        }
        let path = self.write_report(component, report)?;
        self.tell(&HostEvent { component: Some(component.into()), folder: Some(self.relative(&path)), ..event("report") })?;
        Ok(path)
    }

    pub(super) fn tell(&self, event: &HostEvent) -> Result<()> {
        append(&self.folder, event)
    }

    pub(super) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Publishes a report as `reports/NAME.json`, else `reports/NAME.2.json` and so on.
    ///
    /// # Errors
    /// [`Error::Publish`], [`Error::Serialise`] or I/O errors with their path.
    pub fn write_report(&self, name: &str, report: &Report) -> Result<PathBuf> {
        let reports = self.folder.join("reports");
        make_folder(&reports)?;
        let json = to_json(name, report)?;
        let mut number = 1;
        loop {
            let file = if number == 1 { format!("{name}.json") } else { format!("{name}.{number}.json") };
            match publish_new(&reports, &file, &json) {
                Err(PublishError::Exists { .. }) if number < MAX_NAME_CLAIMS => number += 1,
                published => return Ok(published?),
            }
        }
    }
}
