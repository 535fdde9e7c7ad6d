//! "How much may the command use?" The memory control group around it, of either version.
//!
//! May use: std and procfs.
//!
//! Invariants: only reads; what the kernel does not tell is `None`; a limit counts with those of the groups around it.

use procfs::process::{MountInfo, Process};
use std::path::{Path, PathBuf};

/// Above this a value of the first version means "no limit": the kernel writes the largest multiple of a page.
const NO_LIMIT: u64 = 1 << 62;

/// The file names of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Names {
    limit: &'static str,
    used: &'static str,
    events: &'static str,
}

const FIRST: Names = Names { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", events: "memory.oom_control" };
const SECOND: Names = Names { limit: "memory.max", used: "memory.current", events: "memory.events" };

/// A memory control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name, as the kernel gives it.
    pub name: String,
    names: Names,
    top: PathBuf,
    folder: PathBuf,
}

impl Group {
    /// The group that a process is in.
    pub fn of(process: &Process) -> Option<Group> {
        let groups = process.cgroups().ok()?;
        let mounts = Process::myself().and_then(|me| me.mountinfo()).ok()?;
        let first = groups.0.iter().find(|group| group.controllers.iter().any(|name| name == "memory"));
        let (name, names, mount) = match first {
            Some(group) => {
                let memory = |mount: &&MountInfo| mount.fs_type == "cgroup" && mount.super_options.contains_key("memory");
                (&group.pathname, FIRST, mounts.0.iter().find(memory)?)
            }
            None => {
                let group = groups.0.iter().find(|group| group.hierarchy == 0)?;
                (&group.pathname, SECOND, mounts.0.iter().find(|mount| mount.fs_type == "cgroup2")?)
            }
        };
        let folder = folder(&mount.mount_point, &mount.root, name)?;
        Some(Group { name: name.clone(), names, top: mount.mount_point.clone(), folder })
    }

    /// The least limit of this group and those around it.
    pub fn limit_bytes(&self) -> Option<u64> {
        let around = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.top));
        around.filter_map(|folder| number(&folder.join(self.names.limit))).filter(|limit| *limit < NO_LIMIT).min()
    }

    /// Memory charged to the group.
    pub fn used_bytes(&self) -> Option<u64> {
        number(&self.folder.join(self.names.used))
    }

    /// Processes of the group that the kernel killed for lack of memory, since the group exists.
    pub fn kills(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.join(self.names.events)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }
}

/// Where a group lies below its mount, which may show only a part of the hierarchy.
fn folder(mount_point: &Path, root: &str, name: &str) -> Option<PathBuf> {
    let below = Path::new(name).strip_prefix(root).ok()?;
    Some(mount_point.join(below))
}

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// What was seen of the control groups that the command passed through.
#[derive(Debug, Default)]
pub struct GroupWatch {
    current: Option<(Group, Option<u64>)>,
    kills: Option<u64>,
    /// Largest charge that was read in the last group.
    pub peak_bytes: Option<u64>,
    /// Name and limit of the last group.
    pub last: Option<(String, Option<u64>)>,
}

impl GroupWatch {
    /// Notices which group a process is in now; kills count from the first look at a group.
    pub fn look(&mut self, process: &Process) {
        let Some(now) = Group::of(process) else { return };
        if self.current.as_ref().is_some_and(|(group, _)| *group == now) {
            return;
        }
        self.settle();
        self.last = Some((now.name.clone(), now.limit_bytes()));
        let base = now.kills();
        self.peak_bytes = None;
        self.current = Some((now, base));
    }

    /// The charge of the current group.
    pub fn used_bytes(&mut self) -> Option<u64> {
        let used = self.current.as_ref()?.0.used_bytes();
        self.peak_bytes = self.peak_bytes.max(used);
        used
    }

    /// Kills since the first look; `None` where the kernel does not tell.
    pub fn kills(&mut self) -> Option<u64> {
        self.settle();
        self.kills
    }

    fn settle(&mut self) {
        if let Some((group, base)) = &mut self.current
            && let (Some(before), Some(now)) = (*base, group.kills())
        {
            *self.kills.get_or_insert(0) += now.saturating_sub(before);
            *base = Some(now);
        }
    }
}

/// Processes of the whole machine that the kernel killed for lack of memory since it started.
pub fn kills_of_the_machine() -> Option<u64> {
    procfs::vmstat().ok()?.get("oom_kill").and_then(|kills| u64::try_from(*kills).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_may_show_a_part_of_the_hierarchy() {
        let at = |root, name| folder(Path::new("/cg"), root, name);
        assert_eq!(at("/", "/a/b"), Some("/cg/a/b".into()));
        assert_eq!(at("/a", "/a/b"), Some("/cg/b".into()));
        assert_eq!(at("/a", "/a"), Some("/cg/".into()));
        assert_eq!(at("/c", "/a"), None);
    }

    #[test]
    fn limits_count_with_those_around_and_both_versions_are_read() {
        let top = std::env::temp_dir().join(format!("ddo-group-{:032x}", fastrand::u128(..)));
        let group = |names, path: &str| Group { name: path.into(), names, top: top.clone(), folder: top.join(path) };
        let write = |path: &str, text: &str| std::fs::write(top.join(path), text).expect("written");
        std::fs::create_dir_all(top.join("a/b")).expect("made");
        write("memory.limit_in_bytes", "9223372036854771712\n");
        write("a/memory.limit_in_bytes", "536870912\n");
        write("a/b/memory.limit_in_bytes", "9223372036854771712\n");
        write("a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
        write("memory.max", "max\n");
        write("a/memory.max", "2048\n");
        write("a/b/memory.max", "4096\n");
        write("a/b/memory.current", "77\n");
        write("a/b/memory.events", "low 0\nmax 9\noom 5\noom_kill 4\noom_group_kill 0\n");
        let (first, second) = (group(FIRST, "a/b"), group(SECOND, "a/b"));
        assert_eq!((first.limit_bytes(), first.used_bytes(), first.kills()), (Some(512 << 20), None, Some(3)));
        assert_eq!((second.limit_bytes(), second.used_bytes(), second.kills()), (Some(2048), Some(77), Some(4)));
        assert_eq!((group(SECOND, "").limit_bytes(), group(FIRST, "").limit_bytes()), (None, None));
        std::fs::remove_dir_all(&top).ok();
    }
}
