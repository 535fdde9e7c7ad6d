//! "Who ran what, where?" Builds and publishes the manifest and its seal.
//!
//! May use: std, schemas, procfs, jiff, rustix and `observe::publish`.
//!
//! Invariants: of the environment only `DDO_*` and `CUDA_VISIBLE_DEVICES` are recorded, as the command sees them; what
//! is recorded went through the redactor; what the machine does not tell is left out, never guessed.

use super::clock::Moment;
use super::device::{Facts, Used};
use super::error::WrapError;
use super::group::Group;
use super::memory::Metric;
use super::request::{Monitor, Plan};
use super::words::escaped;
use crate::observe::publish::publish_new;
use crate::observe::ranks_of_environment;
use ddo_schemas::manifest::{Baseline, Clocks, Limits, Machine, Manifest, ManifestEnd};
use ddo_schemas::settings::{ENV_DIR, ENV_SETTINGS};
use ddo_schemas::{Seconds, version};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// When the baselines were read.
pub const BEFORE_CHILD: &str = "before_child";
/// What happens when the disk budget is reached.
pub const DISK_POLICY: &str = "keep_first";
/// File name of the manifest.
pub const MANIFEST_FILE: &str = "manifest.json";
/// File name of its seal.
pub const SEAL_FILE: &str = "manifest.end.json";

/// What the command gets through its environment.
#[derive(Clone, Debug)]
pub struct Handover {
    /// The journal folder, absolute.
    pub dir: PathBuf,
    /// The settings as JSON.
    pub settings: String,
}

impl Handover {
    /// The variables that are set for the command.
    pub fn variables(&self) -> [(&'static str, &OsStr); 2] {
        [(ENV_DIR, self.dir.as_os_str()), (ENV_SETTINGS, OsStr::new(&self.settings))]
    }
}

/// What was read before the command.
#[derive(Clone, Debug)]
pub struct Before {
    /// What the monitor will read; `None` when it is off.
    pub metric: Option<Metric>,
    /// The devices and what they hold.
    pub devices: Option<(Facts, Used)>,
    /// The recorder's own control group.
    pub group: Option<Group>,
    /// The clocks.
    pub moment: Moment,
}

/// Builds the manifest.
pub fn build(plan: &Plan, handover: &Handover, before: &Before) -> Manifest {
    let redactor = &plan.redactor;
    let clocks = Clocks {
        monotonic_seconds: Seconds(before.moment.monotonic),
        wall_utc: jiff::Timestamp::now().to_string(),
        boottime_seconds: Some(Seconds(before.moment.boottime)),
    };
    let baseline = Baseline {
        moment: BEFORE_CHILD.into(),
        control_group_bytes: before.group.as_ref().and_then(Group::used_bytes),
        gpu_used_bytes: before.devices.as_ref().and_then(|(_, used)| used.ok()),
    };
    let words = std::iter::once(&plan.program).chain(&plan.arguments);
    let command = if plan.no_command_line { Vec::new() } else { words.map(|w| redactor.json(w)).collect() };
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().filter(|(name, _)| recorded(name)).collect();
    variables.extend(handover.variables().map(|(name, value)| (name.into(), value.to_owned())));
    Manifest {
        schema_version: version::MANIFEST,
        tool: concat!("ddo-record ", env!("CARGO_PKG_VERSION")).into(),
        command,
        working_directory: std::env::current_dir().ok().map(|dir| redactor.json(dir.as_os_str())),
        environment: variables.iter().map(|(name, value)| (escaped(name), redactor.json(value))).collect(),
        labels: plan.labels.iter().map(|(key, value)| (key.clone(), redactor.json(OsStr::new(value)))).collect(),
        component: plan.settings.component.clone(),
        settings: plan.settings.clone(),
        settings_origin: plan.origins.clone(),
        memory_monitor: plan.monitor.name().into(),
        memory_interval_seconds: Seconds(plan.interval.as_secs_f64()),
        ram_metric: before.metric.map(|metric| metric.label().into()),
        gpu_metric: before.devices.as_ref().map(|(facts, _)| facts.metric().into()),
        baseline: (plan.monitor != Monitor::Off).then_some(baseline),
        clocks,
        machine: machine(plan, before.devices.as_ref().map(|(facts, _)| facts)),
        limits: Some(limits(before.group.as_ref())),
        ranks: ranks_of_environment(),
        disk_budget_bytes: plan.disk_budget_bytes,
        disk_policy: plan.disk_budget_bytes.map(|_| DISK_POLICY.into()),
    }
}

/// Publishes a finished document.
///
/// # Errors
/// Publication failed.
pub fn publish_bytes(dir: &Path, name: &'static str, mut bytes: Vec<u8>) -> Result<(), WrapError> {
    bytes.push(b'\n');
    publish_new(dir, name, &bytes)?;
    Ok(())
}

/// Publishes the manifest.
///
/// # Errors
/// Serialisation or publication failed.
pub fn publish(dir: &Path, manifest: &Manifest) -> Result<(), WrapError> {
    publish_json(dir, MANIFEST_FILE, manifest)
}

/// Publishes the seal.
///
/// # Errors
/// Serialisation or publication failed.
pub fn seal(dir: &Path, end: &ManifestEnd) -> Result<(), WrapError> {
    publish_json(dir, SEAL_FILE, end)
}

fn publish_json(dir: &Path, name: &'static str, document: &impl Serialize) -> Result<(), WrapError> {
    let bytes = serde_json::to_vec_pretty(document).map_err(|source| WrapError::Json { document: name, source })?;
    publish_bytes(dir, name, bytes)
}

/// True for the variables that are recorded.
fn recorded(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"DDO_") || name == "CUDA_VISIBLE_DEVICES"
}

fn machine(plan: &Plan, devices: Option<&Facts>) -> Machine {
    let system = rustix::system::uname();
    let (name, release) = (system.sysname().to_string_lossy(), system.release().to_string_lossy());
    Machine {
        os: Some(format!("{name} {release}")),
        cpu: processor(),
        logical_cpus: std::thread::available_parallelism().ok().map(|n| n.get() as u64),
        memory_bytes: memory(),
        host_name: Some(plan.redactor.json(OsStr::from_bytes(system.nodename().to_bytes()))),
        gpus: devices.map(|facts| facts.gpus.clone()),
        gpu_driver: devices.and_then(|facts| facts.driver.clone()),
    }
}

/// The limits that the command inherits.
pub fn limits(group: Option<&Group>) -> Limits {
    let soft = |resource| getrlimit(resource).current;
    Limits {
        control_group: group.map(|group| group.name.clone()),
        control_group_bytes: group.and_then(Group::limit_bytes),
        address_space_bytes: soft(Resource::As),
        data_bytes: soft(Resource::Data),
        locked_memory_bytes: soft(Resource::Memlock),
        file_size_bytes: soft(Resource::Fsize),
        open_files: soft(Resource::Nofile),
    }
}

fn processor() -> Option<String> {
    use procfs::Current as _;
    let info = procfs::CpuInfo::current().ok()?;
    info.model_name(0).map(str::to_owned)
}

fn memory() -> Option<u64> {
    use procfs::Current as _;
    procfs::Meminfo::current().ok().map(|info| info.mem_total)
}
