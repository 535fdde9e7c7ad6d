//! "How much device memory is in use?" Asks the GPU driver's management library, where there is one.
//!
//! May use: std, nvml-wrapper, schemas, the limits and `driver::descriptors`.
//!
//! Invariants: the library is opened at run time; all calls are made by one thread, and nobody waits for it longer than a
//! stated time, so a driver that hangs costs samples only; a device that cannot be read is unavailable, never zero; the command
//! inherits no file that the library opened.

use crate::driver::descriptors::{close_on_exec, open_descriptors};
use crate::limits::{GPU_OPEN_PATIENCE, GPU_QUERY_PATIENCE};
use ddo_schemas::manifest::Gpu;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use std::ffi::OsStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};

/// The library's name at run time; the plain name exists only with development files.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Bytes in use, or why they are unknown.
pub type Used = Result<u64, &'static str>;

/// What is known about the devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Watched devices.
    pub gpus: Vec<Gpu>,
    /// Version of the driver.
    pub driver: Option<String>,
}

impl Facts {
    /// The name of what is read.
    pub fn metric(&self) -> &'static str {
        if self.gpus.len() == 1 { "nvml_device_used" } else { "nvml_device_used_summed" }
    }
}

/// Devices that are watched.
#[derive(Debug)]
pub struct Devices {
    /// What is known about them.
    pub facts: Facts,
    ask: Sender<()>,
    answers: Receiver<Used>,
    waiting: bool,
}

/// What became of opening the library.
#[derive(Debug)]
pub enum Opened {
    /// There is no library or no device.
    Absent,
    /// The library did not answer in time.
    Silent,
    /// Devices are watched.
    Watched(Devices),
}

/// Opens the library.
///
/// # Cost
/// Waits for the driver, at most [`GPU_OPEN_PATIENCE`].
pub fn open() -> Opened {
    let (ask, asked) = mpsc::channel();
    let (answer, answers) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let serve = move || serve(&tell, &asked, &answer);
    let before = open_descriptors();
    if std::thread::Builder::new().name("ddo-gpu".into()).spawn(serve).is_err() {
        return Opened::Absent;
    }
    let told = told.recv_timeout(GPU_OPEN_PATIENCE);
    for descriptor in open_descriptors().difference(&before) {
        // A file that is closed again is not inherited either.
        close_on_exec(*descriptor).ok();
    }
    match told {
        Ok(facts) => Opened::Watched(Devices { facts, ask, answers, waiting: false }),
        Err(RecvTimeoutError::Disconnected) => Opened::Absent,
        Err(RecvTimeoutError::Timeout) => Opened::Silent,
    }
}

impl Devices {
    /// Device memory in use by everybody, summed over the watched devices.
    ///
    /// # Cost
    /// Waits for the driver, at most [`GPU_QUERY_PATIENCE`].
    pub fn used(&mut self) -> Used {
        if !self.waiting && self.ask.send(()).is_err() {
            return Err("stopped");
        }
        self.waiting = true;
        match self.answers.recv_timeout(GPU_QUERY_PATIENCE) {
            Ok(used) => {
                self.waiting = false;
                used
            }
            // The answer to this question will be taken for the next one.
            Err(RecvTimeoutError::Timeout) => Err("timed_out"),
            Err(RecvTimeoutError::Disconnected) => Err("stopped"),
        }
    }
}

fn serve(tell: &Sender<Facts>, asked: &Receiver<()>, answer: &Sender<Used>) {
    let Ok(nvml) = Nvml::builder().lib_path(OsStr::new(LIBRARY)).init() else { return };
    let order = std::env::var("CUDA_DEVICE_ORDER").is_ok_and(|order| order == "PCI_BUS_ID");
    let gpus = visible(all(&nvml), std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref(), order);
    if gpus.is_empty() {
        return;
    }
    let indices: Vec<u32> = gpus.iter().filter_map(|gpu| u32::try_from(gpu.index).ok()).collect();
    let facts = Facts { gpus, driver: nvml.sys_driver_version().ok() };
    if tell.send(facts).is_err() {
        return;
    }
    for () in asked {
        let used = indices.iter().map(|index| nvml.device_by_index(*index)?.memory_info().map(|memory| memory.used));
        let sum: Result<u64, NvmlError> = used.sum();
        if answer.send(sum.map_err(|error| error_type(&error))).is_err() {
            return;
        }
    }
}

fn all(nvml: &Nvml) -> Vec<Gpu> {
    let Ok(count) = nvml.device_count() else { return Vec::new() };
    let devices = (0..count).filter_map(|index| Some((index, nvml.device_by_index(index).ok()?)));
    let described = devices.map(|(index, device)| Gpu {
        index: u64::from(index),
        name: device.name().ok(),
        uuid: device.uuid().ok(),
        memory_bytes: device.memory_info().ok().map(|memory| memory.total),
    });
    described.collect()
}

/// The devices that the command may see. Numbers count in CUDA's order, which is this one for equal devices and where
/// the environment says so; otherwise all devices are watched.
fn visible(all: Vec<Gpu>, variable: Option<&str>, by_bus: bool) -> Vec<Gpu> {
    let Some(list) = variable else { return all };
    let equal = all.windows(2).all(|pair| matches!(pair, [a, b] if a.name == b.name));
    let mut chosen: Vec<Gpu> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let found = match word.parse::<u64>() {
            Ok(_) if !equal && !by_bus => return all,
            Ok(number) => all.iter().find(|gpu| gpu.index == number),
            Err(_) if word.starts_with("MIG-") => return all,
            Err(_) => all.iter().find(|gpu| !word.is_empty() && gpu.uuid.as_ref().is_some_and(|uuid| uuid.starts_with(word))),
        };
        // CUDA ignores everything after the first word that names no device.
        let Some(gpu) = found else { break };
        if !chosen.contains(gpu) {
            chosen.push(gpu.clone());
        }
    }
    chosen
}

fn error_type(error: &NvmlError) -> &'static str {
    match error {
        NvmlError::NoPermission => "permission_denied",
        NvmlError::NotSupported | NvmlError::FunctionNotFound => "not_supported",
        NvmlError::GpuLost => "device_lost",
        NvmlError::DriverNotLoaded | NvmlError::Uninitialized => "driver_not_loaded",
        NvmlError::Timeout => "timed_out",
        _ => "unreadable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u64, name: &str) -> Gpu {
        Gpu { index, name: Some(name.into()), uuid: Some(format!("GPU-{index}a")), memory_bytes: Some(1 << 30) }
    }

    #[test]
    fn the_watched_devices_are_those_that_the_command_sees() {
        let two = || vec![gpu(0, "a"), gpu(1, "a")];
        let mixed = || vec![gpu(0, "a"), gpu(1, "b")];
        let seen = |all, list, by_bus| visible(all, list, by_bus).iter().map(|gpu| gpu.index).collect::<Vec<_>>();
        assert_eq!(seen(two(), None, false), [0, 1]);
        assert_eq!(seen(two(), Some("1"), false), [1]);
        assert_eq!(seen(two(), Some("1,7,0"), false), [1], "nothing counts after a device that is not there");
        assert_eq!(seen(two(), Some(""), false), [0_u64; 0]);
        assert_eq!(seen(two(), Some("-1"), false), [0_u64; 0]);
        assert_eq!(seen(mixed(), Some("1"), false), [0, 1], "the orders may differ");
        assert_eq!(seen(mixed(), Some("1"), true), [1]);
        assert_eq!(seen(mixed(), Some("GPU-1"), false), [1]);
        assert_eq!(seen(two(), Some("MIG-7"), false), [0, 1]);
    }

    #[test]
    fn one_question_is_open_at_a_time() {
        let (ask, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let mut devices = Devices { facts: Facts::default(), ask, answers, waiting: false };
        answer.send(Ok(7)).expect("listening");
        assert_eq!(devices.used(), Ok(7));
        devices.waiting = true;
        answer.send(Err("device_lost")).expect("listening");
        assert_eq!(devices.used(), Err("device_lost"));
        assert_eq!(asked.try_iter().count(), 1, "the late answer needed no second question");
        drop(answer);
        assert_eq!(devices.used(), Err("stopped"));
    }
}
