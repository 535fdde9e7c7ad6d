//! Ranks: "Which process of a job was it?"
//!
//! Uses the manifest. Invariant: a rank is what labels or environment say, never a guess from a folder's name.

use ddo_schemas::manifest::Manifest;

/// The place of one process among those of a distributed job, as its launcher numbered it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// `RANK`: the number among all.
    pub rank: Option<u64>,
    /// `LOCAL_RANK`: the number on its machine.
    pub local_rank: Option<u64>,
    /// `WORLD_SIZE`: how many there are.
    pub world_size: Option<u64>,
}

impl Rank {
    /// Reads the words of a manifest; labels, which people give, come before the environment.
    pub fn of(manifest: &Manifest) -> Rank {
        let number = |name: &str| {
            let all = manifest.labels.iter().chain(&manifest.environment);
            all.filter(|(key, _)| key.eq_ignore_ascii_case(name)).find_map(|(_, value)| value.trim().parse().ok())
        };
        Rank { rank: number("RANK"), local_rank: number("LOCAL_RANK"), world_size: number("WORLD_SIZE") }
    }

    /// The rank in words; nothing where it is not known.
    pub fn words(&self) -> Option<String> {
        let rank = self.rank?;
        Some(self.world_size.map_or_else(|| format!("rank {rank}"), |size| format!("rank {rank} of {size}")))
    }
}
