//! A committed recording gives its committed results, byte for byte. `DDO_BLESS=1` writes them anew.
//!
//! The recording is of an NVIDIA H200, so the figures of a device are read on every machine.

use crate::support::trace::sound;
use crate::support::{command, ran, scratch};
use std::path::Path;

#[test]
fn the_recorded_device_run_gives_its_committed_results() {
    let journals = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("samples/journals");
    let at = scratch("golden");
    let said =
        ran(command("ddo-analyze").current_dir(&journals).arg("flux-h200").arg("--out").arg(at.path().join("out"))).ended(0);
    let trace = std::fs::read(at.path().join("out/run.perfetto-trace")).expect("written");
    sound(&trace);
    // The screen ends with the folder of this run; the rest is the recording's.
    let screen: String =
        said.out.lines().take_while(|line| !line.starts_with("outputs")).map(|line| format!("{line}\n")).collect();
    let results = [
        ("summary.json", std::fs::read(at.path().join("out/summary.json")).expect("written")),
        ("deltas.md", std::fs::read(at.path().join("out/deltas.md")).expect("written")),
        ("reconciliation.json", std::fs::read(at.path().join("out/reconciliation.json")).expect("written")),
        ("profile.txt", std::fs::read(at.path().join("out/profile.txt")).expect("written")),
        ("screen.txt", screen.into_bytes()),
        ("run.perfetto-trace", trace),
    ];
    let golden = journals.join("flux-h200.analysis");
    for (name, got) in results {
        let path = golden.join(name);
        if std::env::var_os("DDO_BLESS").is_some() {
            std::fs::create_dir_all(&golden).expect("made");
            std::fs::write(&path, &got).expect("written");
        }
        let want = std::fs::read(&path).expect("committed");
        assert!(got == want, "{name} differs from the committed one; look at the difference, then DDO_BLESS=1");
    }
}
