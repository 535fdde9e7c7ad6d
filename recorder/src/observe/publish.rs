//! "How does a finished file appear?" The publication rule of every JSON file of a journal folder.
//!
//! May use: std, rustix and fastrand only.
//!
//! A file is written under a unique temporary name `NAME.<32 hex>.tmp`, flushed to disk, and then given its own name
//! without replacing anything: by a hard link, or by a rename that refuses an existing target where the file system
//! has no hard links. The folder is flushed last.
//!
//! Invariants:
//! - a name, once published, is never overwritten, and what a reader finds under it is whole;
//! - a temporary file is removed only while it is the very file that this call created;
//! - a call that stops between any two operations leaves at most a temporary file behind;
//! - a file system that offers neither way is a typed error, never a plain rename.

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Temporary names tried before giving up; a collision of 128 random bits means a broken generator.
const TEMPORARY_NAMES: u32 = 4;

/// One file operation of a publication, in the order in which they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The temporary file is created exclusively.
    Open,
    /// The bytes are written to it.
    Write,
    /// The temporary file is flushed to disk.
    Sync,
    /// The final name is linked to it.
    Link,
    /// The temporary file is renamed without replacing; only where hard links are not supported.
    Rename,
    /// The temporary name is removed.
    Unlink,
    /// The folder is flushed to disk.
    SyncFolder,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Step; 7] = [Step::Open, Step::Write, Step::Sync, Step::Link, Step::Rename, Step::Unlink, Step::SyncFolder];

    /// The step's name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Open => "open",
            Step::Write => "write",
            Step::Sync => "sync",
            Step::Link => "link",
            Step::Rename => "rename",
            Step::Unlink => "unlink",
            Step::SyncFolder => "sync_folder",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a file was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The name is taken; what is there was left alone.
    #[error("{path:?} exists already and is not overwritten")]
    Exists {
        /// The final path.
        path: PathBuf,
    },
    /// Neither a hard link nor a rename without replacing is supported.
    #[error("{path:?}: the file system supports neither hard links nor a rename without replacing ({step}: {source})")]
    Unsupported {
        /// The final path.
        path: PathBuf,
        /// The last step that was tried.
        step: Step,
        /// What the system said.
        source: io::Error,
    },
    /// An operation failed.
    #[error("{path:?}: {step} failed: {source}")]
    Io {
        /// The file or folder of the operation.
        path: PathBuf,
        /// The operation.
        step: Step,
        /// What the system said.
        source: io::Error,
    },
    /// The name is not the name of a file inside the folder.
    #[error("{name:?} is not a plain file name")]
    BadName {
        /// The name asked for.
        name: String,
    },
    /// A watch stopped the publication before the step, as the end of the process would.
    #[error("{path:?}: stopped before {step}")]
    Stopped {
        /// The final path.
        path: PathBuf,
        /// The step that was not taken.
        step: Step,
    },
}

impl PublishError {
    /// Stable identifier of the error.
    pub fn code(&self) -> &'static str {
        match self {
            PublishError::Exists { .. } => "publish_exists",
            PublishError::Unsupported { .. } => "publish_unsupported",
            PublishError::Io { .. } => "publish_io",
            PublishError::BadName { .. } => "publish_bad_name",
            PublishError::Stopped { .. } => "publish_stopped",
        }
    }
}

/// What a [`Watch`] wants to happen at a step.
#[derive(Debug)]
pub enum Verdict {
    /// Take the step.
    Go,
    /// End here without any cleaning up, as a killed process would.
    Stop,
    /// Act as if the step had failed with this error.
    Fail(io::Error),
}

/// Looks on before every file operation; tests stop or fail a publication with it.
pub trait Watch {
    /// Called just before `step`.
    fn before(&mut self, step: Step) -> Verdict;
}

/// The watch of real publications: every step is taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn before(&mut self, _step: Step) -> Verdict {
        Verdict::Go
    }
}

/// Publishes `bytes` as `dir/name` and gives back that path; never replaces anything.
///
/// # Errors
/// [`PublishError::Exists`] when the name is taken, otherwise the operation that failed. Earlier files stay as they are.
///
/// # Cost
/// Blocks on two flushes to disk.
pub fn publish_new(dir: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, PublishError> {
    publish_watched(dir, name, bytes, &mut Unwatched)
}

/// [`publish_new`] with a watch before every file operation.
///
/// # Errors
/// As [`publish_new`]; [`PublishError::Stopped`] when the watch says so.
pub fn publish_watched(dir: &Path, name: &str, bytes: &[u8], watch: &mut dyn Watch) -> Result<PathBuf, PublishError> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(PublishError::BadName { name: name.to_owned() });
    }
    let target = dir.join(name);
    let mut steps = Steps { target: &target, watch };
    let temporary = steps.create(dir, name)?;
    match steps.fill_and_name(&temporary, bytes) {
        Ok(()) => {}
        Err(stopped @ PublishError::Stopped { .. }) => return Err(stopped),
        Err(error) => {
            temporary.remove_if_ours().ok();
            return Err(error);
        }
    }
    steps.take(Step::SyncFolder, dir, || File::open(dir)?.sync_all())?;
    Ok(target)
}

/// The temporary file of one publication.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    /// Removes the temporary name, unless another file stands under it by now.
    fn remove_if_ours(&self) -> io::Result<()> {
        let (open, named) = (self.file.metadata()?, std::fs::symlink_metadata(&self.path)?);
        if (open.dev(), open.ino()) != (named.dev(), named.ino()) {
            return Err(io::Error::other("another file has taken the temporary name"));
        }
        std::fs::remove_file(&self.path)
    }
}

/// How the final name was given.
enum Named {
    Linked,
    Renamed,
}

/// Takes the steps of one publication, each past the watch.
struct Steps<'a> {
    target: &'a Path,
    watch: &'a mut dyn Watch,
}

impl Steps<'_> {
    /// Runs one operation past the watch, with the raw error; `Err(None)` means stopped.
    fn attempt<T>(&mut self, step: Step, work: impl FnOnce() -> io::Result<T>) -> Result<T, Option<io::Error>> {
        match self.watch.before(step) {
            Verdict::Go => work().map_err(Some),
            Verdict::Stop => Err(None),
            Verdict::Fail(error) => Err(Some(error)),
        }
    }

    /// Runs one operation whose every failure ends the publication.
    fn take<T>(&mut self, step: Step, path: &Path, work: impl FnOnce() -> io::Result<T>) -> Result<T, PublishError> {
        self.attempt(step, work).map_err(|error| match error {
            Some(source) => PublishError::Io { path: path.to_owned(), step, source },
            None => self.stopped(step),
        })
    }

    fn stopped(&self, step: Step) -> PublishError {
        PublishError::Stopped { path: self.target.to_owned(), step }
    }

    fn create(&mut self, dir: &Path, name: &str) -> Result<Temporary, PublishError> {
        let mut tries = 0;
        loop {
            let path = dir.join(format!("{name}.{:032x}.tmp", fastrand::u128(..)));
            let opened = self.attempt(Step::Open, || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path));
            tries += 1;
            match opened {
                Ok(file) => return Ok(Temporary { path, file }),
                Err(None) => return Err(self.stopped(Step::Open)),
                Err(Some(e)) if e.kind() == io::ErrorKind::AlreadyExists && tries < TEMPORARY_NAMES => {}
                Err(Some(source)) => return Err(PublishError::Io { path, step: Step::Open, source }),
            }
        }
    }

    fn fill_and_name(&mut self, temporary: &Temporary, bytes: &[u8]) -> Result<(), PublishError> {
        let path = temporary.path.as_path();
        self.take(Step::Write, path, || (&temporary.file).write_all(bytes))?;
        self.take(Step::Sync, path, || temporary.file.sync_all())?;
        match self.name(path)? {
            Named::Linked => self.take(Step::Unlink, path, || temporary.remove_if_ours()),
            Named::Renamed => Ok(()),
        }
    }

    fn name(&mut self, temporary: &Path) -> Result<Named, PublishError> {
        let target = self.target;
        match self.attempt(Step::Link, || std::fs::hard_link(temporary, target)) {
            Ok(()) => return Ok(Named::Linked),
            Err(None) => return Err(self.stopped(Step::Link)),
            Err(Some(e)) if no_hard_links(&e) => {}
            Err(Some(e)) => return Err(self.refused(Step::Link, e)),
        }
        let rename = || Ok(rustix::fs::renameat_with(CWD, temporary, CWD, target, RenameFlags::NOREPLACE)?);
        match self.attempt(Step::Rename, rename) {
            Ok(()) => Ok(Named::Renamed),
            Err(None) => Err(self.stopped(Step::Rename)),
            Err(Some(source)) if no_exclusive_rename(&source) => {
                Err(PublishError::Unsupported { path: target.to_owned(), step: Step::Rename, source })
            }
            Err(Some(e)) => Err(self.refused(Step::Rename, e)),
        }
    }

    fn refused(&self, step: Step, source: io::Error) -> PublishError {
        let path = self.target.to_owned();
        match source.kind() {
            io::ErrorKind::AlreadyExists => PublishError::Exists { path },
            _ => PublishError::Io { path, step, source },
        }
    }
}

fn no_hard_links(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|e| [Errno::PERM, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS, Errno::MLINK].contains(&e))
}

fn no_exclusive_rename(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|e| [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS].contains(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(Vec<(Step, Option<Errno>)>);

    impl Watch for At {
        fn before(&mut self, step: Step) -> Verdict {
            match self.0.iter().find(|(at, _)| *at == step) {
                Some((_, Some(errno))) => Verdict::Fail((*errno).into()),
                Some((_, None)) => Verdict::Stop,
                None => Verdict::Go,
            }
        }
    }

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            let path = std::env::temp_dir().join(format!("ddo-publish-{:032x}", fastrand::u128(..)));
            std::fs::create_dir(&path).expect("scratch folder");
            Scratch(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).expect("scratch folder");
            entries.map(|e| e.expect("entry").file_name().into_string().expect("text")).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn published_once_never_replaced() {
        let dir = Scratch::new();
        let path = publish_new(&dir.0, "a.json", b"one").expect("free name");
        assert_eq!(std::fs::read(&path).expect("published"), b"one");
        assert_eq!(std::fs::metadata(&path).expect("published").mode() & 0o777, 0o600);
        let again = publish_new(&dir.0, "a.json", b"two");
        assert!(matches!(&again, Err(PublishError::Exists { path: p }) if *p == path), "{again:?}");
        assert_eq!(std::fs::read(&path).expect("published"), b"one");
        assert_eq!(dir.names(), ["a.json"]);
    }

    #[test]
    fn a_file_system_without_hard_links_renames_without_replacing() {
        let dir = Scratch::new();
        let no_links = || At(vec![(Step::Link, Some(Errno::PERM))]);
        publish_watched(&dir.0, "a.json", b"one", &mut no_links()).expect("free name");
        let again = publish_watched(&dir.0, "a.json", b"two", &mut no_links());
        assert!(matches!(again, Err(PublishError::Exists { .. })), "{again:?}");
        assert_eq!(std::fs::read(dir.0.join("a.json")).expect("published"), b"one");
        assert_eq!(dir.names(), ["a.json"]);
    }

    #[test]
    fn neither_way_is_a_typed_error_and_leaves_nothing() {
        let dir = Scratch::new();
        let mut watch = At(vec![(Step::Link, Some(Errno::OPNOTSUPP)), (Step::Rename, Some(Errno::INVAL))]);
        let result = publish_watched(&dir.0, "a.json", b"one", &mut watch);
        assert!(matches!(result, Err(PublishError::Unsupported { step: Step::Rename, .. })), "{result:?}");
        assert_eq!(dir.names(), Vec::<String>::new());
    }

    #[test]
    fn a_failing_step_is_named_and_the_temporary_file_goes() {
        for step in [Step::Open, Step::Write, Step::Sync, Step::Link] {
            let dir = Scratch::new();
            let result = publish_watched(&dir.0, "a.json", b"one", &mut At(vec![(step, Some(Errno::NOSPC))]));
            assert!(matches!(&result, Err(PublishError::Io { step: s, .. }) if *s == step), "{result:?}");
            assert_eq!(dir.names(), Vec::<String>::new(), "{step}");
        }
    }

    #[test]
    fn stopping_before_any_step_leaves_whole_files_only() {
        for step in Step::ALL {
            let dir = Scratch::new();
            publish_new(&dir.0, "earlier.json", b"earlier").expect("free name");
            let mut watch = At(vec![(step, None)]);
            if step == Step::Rename {
                watch.0.push((Step::Link, Some(Errno::PERM)));
            }
            let result = publish_watched(&dir.0, "a.json", b"whole", &mut watch);
            assert!(matches!(&result, Err(PublishError::Stopped { step: s, .. }) if *s == step), "{result:?}");
            assert_eq!(std::fs::read(dir.0.join("earlier.json")).expect("earlier"), b"earlier");
            let visible = std::fs::read(dir.0.join("a.json")).ok();
            assert_eq!(visible.as_deref(), (step >= Step::Unlink).then_some(b"whole".as_slice()), "{step}");
            let foreign = |name: &String| name != "earlier.json" && name != "a.json" && !name.ends_with(".tmp");
            assert!(!dir.names().iter().any(foreign), "{:?}", dir.names());
        }
    }

    #[test]
    fn names_stay_inside_the_folder() {
        let dir = Scratch::new();
        for name in ["", ".", "..", "a/b", "../a"] {
            assert!(matches!(publish_new(&dir.0, name, b""), Err(PublishError::BadName { .. })), "{name:?}");
        }
    }
}
