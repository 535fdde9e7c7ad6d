//! "Which processes belong to the command?" Its own process and its descendants.
//!
//! May use: std, procfs and the limits.
//!
//! Invariants:
//! - a member is held by its open folder in `/proc`, so a process id that is used again is never mistaken for it;
//! - who was once found stays a member, also after it was given to another parent (a daemon);
//! - looking for new members takes a small share of the time, however many threads the command has;
//! - a process that starts and ends between two searches is not seen.

use crate::limits::{MAX_TREE_PROCESSES, MAX_TREE_SEARCH_PAUSE, TREE_SEARCH_SHARE};
use procfs::ProcError;
use procfs::process::Process;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The command's process and its known descendants.
#[derive(Debug)]
pub struct Tree {
    root: i32,
    members: BTreeMap<i32, Process>,
    began: Instant,
    searched: Option<(Instant, Duration)>,
    /// True once there were more processes than are watched.
    pub overflowed: bool,
}

impl Tree {
    /// The tree below a process id.
    pub fn new(root: i32) -> Tree {
        Tree { root, members: BTreeMap::new(), began: Instant::now(), searched: None, overflowed: false }
    }

    /// The command's own process.
    ///
    /// # Errors
    /// It has ended or may not be looked at.
    pub fn root(&mut self) -> Result<&Process, ProcError> {
        if !self.members.contains_key(&self.root) {
            self.members.insert(self.root, Process::new(self.root)?);
        }
        self.members.get(&self.root).ok_or(ProcError::NotFound(None))
    }

    /// The known descendants.
    pub fn descendants(&self) -> impl Iterator<Item = (i32, &Process)> {
        self.members.iter().filter(|(pid, _)| **pid != self.root).map(|(pid, process)| (*pid, process))
    }

    /// Drops members that have ended.
    pub fn forget(&mut self, ended: &[i32]) {
        self.members.retain(|pid, _| *pid == self.root || !ended.contains(pid));
    }

    /// True when it is time to look for new members: often in the beginning, at most once a second later.
    pub fn is_due(&self) -> bool {
        self.searched.is_none_or(|(at, cost)| {
            let by_age = (self.began.elapsed() / 10).min(MAX_TREE_SEARCH_PAUSE);
            at.elapsed() >= by_age.max(cost.saturating_mul(TREE_SEARCH_SHARE))
        })
    }

    /// Looks for new members.
    pub fn search(&mut self) {
        let began = Instant::now();
        let mut open: Vec<i32> = std::iter::once(self.root).chain(self.members.keys().copied()).collect();
        while let Some(pid) = open.pop() {
            for child in self.children(pid) {
                if self.members.contains_key(&child) {
                    continue;
                }
                if self.members.len() >= MAX_TREE_PROCESSES {
                    self.overflowed = true;
                    break;
                }
                if let Ok(process) = Process::new(child) {
                    self.members.insert(child, process);
                    open.push(child);
                }
            }
        }
        self.searched = Some((Instant::now(), began.elapsed()));
    }

    /// Children of all threads of a member; none where it has ended.
    fn children(&self, pid: i32) -> Vec<i32> {
        let Some(tasks) = self.members.get(&pid).and_then(|process| process.tasks().ok()) else { return Vec::new() };
        let children = tasks.flatten().filter_map(|task| task.children().ok()).flatten();
        children.filter_map(|child| i32::try_from(child).ok()).collect()
    }

    /// Descendants that are alive.
    pub fn living_descendants(&self) -> u64 {
        self.descendants().filter(|(_, process)| process.is_alive()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn descendants_are_found_and_kept_after_their_parent() {
        // The shell's child holds the pipe and waits for its end.
        let mut shell = Command::new("sh")
            .args(["-c", "cat & cat >/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let pid = i32::try_from(shell.id()).expect("small");
        let mut tree = Tree::new(pid);
        tree.root().expect("it lives");
        while tree.descendants().count() < 1 {
            tree.search();
        }
        let found = tree.descendants().count();
        tree.search();
        assert!(tree.descendants().count() >= found);
        drop(shell.stdin.take());
        shell.wait().expect("ours");
        tree.search();
        assert!(tree.descendants().count() >= found, "members are kept until they are known to have ended");
        let ended: Vec<i32> = tree.descendants().filter(|(_, process)| !process.is_alive()).map(|(pid, _)| pid).collect();
        tree.forget(&ended);
        assert_eq!(tree.descendants().count() as u64, tree.living_descendants());
    }
}
