//! When a mapped source is registered: before the first pass, or beside it.
//!
//! Registering takes about as long as copying, so a pass that waits for all of it starts late. Beside the first pass the
//! bytes come through the ring until their segment is registered. Explicit settings win; the rest is a list of conditions.

use crate::limits::{MIN_BACKGROUND_BYTES, MIN_BACKGROUND_READERS};

/// When the segments of a mapped source are registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistrationTiming {
    /// In the background where that is a gain, else at attach.
    #[default]
    Auto,
    /// All at attach, before the first pass.
    AtAttach,
    /// By a thread of the session, from the end of the pass to its begin; what is not registered yet passes through the ring.
    Background,
    /// The same, but one piece for each call of the host.
    ByHost,
}

impl RegistrationTiming {
    const ALL: [RegistrationTiming; 4] =
        [RegistrationTiming::Auto, RegistrationTiming::AtAttach, RegistrationTiming::Background, RegistrationTiming::ByHost];

    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            RegistrationTiming::Auto => "auto",
            RegistrationTiming::AtAttach => "attach",
            RegistrationTiming::Background => "background",
            RegistrationTiming::ByHost => "host",
        }
    }

    /// Whether passes go on while segments are still registered.
    pub fn is_beside_passes(self) -> bool {
        matches!(self, RegistrationTiming::Background | RegistrationTiming::ByHost)
    }
}

impl std::str::FromStr for RegistrationTiming {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<RegistrationTiming, Self::Err> {
        let names = "auto, attach, background, host";
        let unknown = || crate::error::Error::invalid("registration timing", format!("{text:?} is none of {names}"));
        RegistrationTiming::ALL.into_iter().find(|timing| timing.name() == text).ok_or_else(unknown)
    }
}

/// What the gain of registering beside the first pass depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdStart {
    /// The device takes bytes that are mapped read-only.
    pub can_register: bool,
    /// Registering takes the driver longer the more bytes there are.
    pub takes_time: bool,
    /// File bytes that a first pass reads.
    pub bytes: u64,
    /// Threads that would fill the ring; `None` where its settings cannot be met.
    pub readers: Option<u64>,
}

impl ColdStart {
    /// The timing that takes effect.
    pub fn settle(&self, requested: RegistrationTiming) -> RegistrationTiming {
        let gains = self.can_register
            && self.takes_time
            && self.bytes >= MIN_BACKGROUND_BYTES
            && self.readers.is_some_and(|readers| readers >= MIN_BACKGROUND_READERS);
        match requested {
            RegistrationTiming::Auto if gains => RegistrationTiming::Background,
            RegistrationTiming::Auto => RegistrationTiming::AtAttach,
            explicit => explicit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_goes_beside_the_pass_only_where_every_condition_holds() {
        let all = ColdStart {
            can_register: true,
            takes_time: true,
            bytes: MIN_BACKGROUND_BYTES,
            readers: Some(MIN_BACKGROUND_READERS),
        };
        assert_eq!(all.settle(RegistrationTiming::Auto), RegistrationTiming::Background);
        for lacking in [
            ColdStart { can_register: false, ..all },
            ColdStart { takes_time: false, ..all },
            ColdStart { bytes: MIN_BACKGROUND_BYTES - 1, ..all },
            ColdStart { readers: Some(MIN_BACKGROUND_READERS - 1), ..all },
            ColdStart { readers: None, ..all },
        ] {
            assert_eq!(lacking.settle(RegistrationTiming::Auto), RegistrationTiming::AtAttach, "{lacking:?}");
            for explicit in [RegistrationTiming::AtAttach, RegistrationTiming::Background, RegistrationTiming::ByHost] {
                assert_eq!(lacking.settle(explicit), explicit, "what is asked for is done");
            }
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for timing in RegistrationTiming::ALL {
            assert_eq!(timing.name().parse::<RegistrationTiming>().expect("its name"), timing);
        }
        assert_eq!("later".parse::<RegistrationTiming>().expect_err("no name").code(), "invalid");
    }
}
