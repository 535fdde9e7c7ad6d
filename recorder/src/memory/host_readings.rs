//! How much host memory the system has left, the limits of this process's control groups included.
//!
//! Reads small text files of the kernel; whatever is missing or not understood is no reading, never a guess. File pages
//! that a group could give back count as available, as they do in the system's own number.

use super::{HostReading, HostReadings};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Asks the kernel.
#[derive(Debug)]
pub struct SystemReadings {
    root: PathBuf,
}

impl Default for SystemReadings {
    fn default() -> SystemReadings {
        SystemReadings { root: PathBuf::from("/") }
    }
}

/// The value of `name` in lines such as `name 12` or `name: 12 kB`, in its own unit.
fn value(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([':', ' ']))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A limit file: a number of bytes, or none where it says `max`.
fn limit(path: &Path) -> Option<u64> {
    read_to_string(path).ok()?.trim().parse().ok()
}

impl SystemReadings {
    /// Reads below another root than `/`; for tests.
    pub fn below(root: &Path) -> SystemReadings {
        SystemReadings { root: root.to_path_buf() }
    }

    fn text(&self, path: &str) -> Option<String> {
        read_to_string(self.root.join(path)).ok()
    }

    /// The least that this process's groups, from its own up to the outermost, leave to it; `None` without a limit.
    fn groups(&self) -> Option<u64> {
        let own = self.text("proc/self/cgroup")?;
        let unified = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let single = own.lines().find_map(|line| line.split_once(":memory:/").map(|(_, path)| path));
        let left = |folder: &Path| match single {
            None => left_in(folder, &["memory.max", "memory.high"], "memory.current", ["active_file", "inactive_file"]),
            Some(_) => {
                let names = ["total_active_file", "total_inactive_file"];
                left_in(folder, &["memory.limit_in_bytes"], "memory.usage_in_bytes", names)
            }
        };
        let base = self.root.join(if single.is_some() { "sys/fs/cgroup/memory" } else { "sys/fs/cgroup" });
        let inside = base.join(single.or(unified)?);
        inside.ancestors().take_while(|folder| folder.starts_with(&base)).filter_map(left).min()
    }
}

fn left_in(folder: &Path, limits: &[&str], usage: &str, pages: [&str; 2]) -> Option<u64> {
    let least = limits.iter().filter_map(|name| limit(&folder.join(name))).min()?;
    let used = limit(&folder.join(usage))?;
    let stat = read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let reclaimable: u64 = pages.iter().filter_map(|name| value(&stat, name)).sum();
    Some(least.saturating_sub(used.saturating_sub(reclaimable)))
}

impl HostReadings for SystemReadings {
    fn read(&self) -> Option<HostReading> {
        let meminfo = self.text("proc/meminfo")?;
        let bytes = |name: &str| value(&meminfo, name)?.checked_mul(1024);
        let available = bytes("MemAvailable")?;
        let ram_bytes = self.groups().map_or(available, |left| left.min(available));
        // Only strict accounting refuses to commit; otherwise physical memory is what counts.
        let strict = self.text("proc/sys/vm/overcommit_memory").is_some_and(|mode| mode.trim() == "2");
        let commit = || Some(bytes("CommitLimit")?.saturating_sub(bytes("Committed_AS")?));
        let commit_bytes = if strict { commit()? } else { ram_bytes };
        Some(HostReading { ram_bytes, commit_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(PathBuf);

    impl Root {
        fn new(files: &[(&str, &str)]) -> Root {
            let root = Root(std::env::temp_dir().join(format!("ddo-readings-{:032x}", fastrand::u128(..))));
            for (path, text) in files {
                let path = root.0.join(path);
                std::fs::create_dir_all(path.parent().expect("below the root")).expect("made");
                std::fs::write(path, text).expect("written");
            }
            root
        }

        fn read(&self) -> Option<HostReading> {
            SystemReadings::below(&self.0).read()
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   1000 kB\nCommitLimit: 500 kB\nCommitted_AS: 100 kB\n");

    #[test]
    fn the_tightest_group_decides_and_file_pages_do_not_count_as_used() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.high", "400000\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "300000\n"),
            ("sys/fs/cgroup/outer/inner/memory.stat", "anon 1\nactive_file 20000\ninactive_file 50000\n"),
            ("sys/fs/cgroup/outer/memory.max", "500000\n"),
            ("sys/fs/cgroup/outer/memory.current", "390000\n"),
        ];
        let reading = Root::new(&files).read().expect("all there");
        assert_eq!(reading, HostReading { ram_bytes: 110_000, commit_bytes: 110_000 }, "500000 - 390000");
        assert_eq!(Root::new(&files[..6]).read().expect("there").ram_bytes, 170_000, "400000 - (300000 - 70000)");
        assert_eq!(Root::new(&files[..1]).read().expect("no group").ram_bytes, 1000 << 10);
    }

    #[test]
    fn older_groups_and_strict_accounting() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/a\n4:memory:/job\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "70000\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "60000\n"),
            ("proc/sys/vm/overcommit_memory", "2\n"),
        ];
        assert_eq!(Root::new(&files).read(), Some(HostReading { ram_bytes: 10_000, commit_bytes: 400 << 10 }));
    }

    #[test]
    fn what_cannot_be_read_is_no_reading() {
        assert_eq!(Root::new(&[("proc/other", "")]).read(), None);
        assert_eq!(Root::new(&[("proc/meminfo", "MemAvailable: many kB\n")]).read(), None);
        let unlimited = [("proc/meminfo", "MemAvailable: 5 kB\n"), ("proc/sys/vm/overcommit_memory", "2\n")];
        assert_eq!(Root::new(&unlimited).read(), None, "strict accounting without its numbers");
    }

    #[test]
    fn this_machine_tells() {
        assert!(SystemReadings::default().read().expect("a kernel").ram_bytes > 0);
    }
}
