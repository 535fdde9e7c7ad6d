//! Driver libraries that are not what is needed: each is one clear refusal, never a panic.
//!
//! A stand-in `libcuda.so.1` is compiled for each case and found by the loader before any real one.

use crate::support::{Scratch, command, ran, scratch};
use std::process::Command;

/// The functions that the driver looks up, from its own source.
fn functions() -> Vec<&'static str> {
    let source = include_str!("../../recorder/src/driver/cuda/context.rs");
    let quoted = source.lines().filter_map(|line| line.trim().strip_prefix("\"cu")?.strip_suffix("\",")).collect::<Vec<_>>();
    assert!(quoted.len() > 40, "{quoted:?}");
    quoted
}

/// Compiles a library with every function but one; `special` defines some itself.
fn library(at: &Scratch, without: Option<&str>, special: &str) {
    let mut text = String::from(special);
    for name in functions() {
        if Some(name) != without && !special.contains(&format!("int cu{name}(")) {
            text.push_str(&format!("int cu{name}(void) {{ return 999; }}\n"));
        }
    }
    let (source, library) = (at.path().join("libcuda.c"), at.path().join("libcuda.so.1"));
    std::fs::write(&source, text).expect("written");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("a C compiler is there").success());
    std::os::unix::fs::symlink("libcuda.so.1", at.path().join("libcuda.so")).expect("linked");
}

/// Asks for the device with that library, and gives back the one line that is said.
fn refusal(at: &Scratch) -> String {
    let mut sample = command("ddo-sample");
    sample.current_dir(at.path()).env("LD_LIBRARY_PATH", at.path());
    sample.args(["flux_shaped", "--driver", "cuda", "--scale", "0.00001", "--model", "model.safetensors"]);
    let said = ran(&mut sample);
    assert_eq!(said.code, Some(2), "{} {}", said.out, said.err);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    assert!(said.err.contains("cuda_open"), "{}", said.err);
    said.err
}

#[test]
fn a_library_without_a_function_is_refused_by_its_name() {
    let at = scratch("cuda-missing");
    library(&at, Some("MemMap"), "");
    let said = refusal(&at);
    assert!(said.contains("no function cuMemMap"), "{said}");
}

#[test]
fn a_library_of_an_older_version_is_refused_with_both_versions() {
    let at = scratch("cuda-old");
    library(&at, None, "int cuInit(unsigned f) { return 0; }\nint cuDriverGetVersion(int *v) { *v = 11040; return 0; }\n");
    let said = refusal(&at);
    assert!(said.contains("11.4") && said.contains("at least 12"), "{said}");
}

#[test]
fn a_library_that_finds_no_device_says_so_in_its_own_words() {
    let at = scratch("cuda-none");
    library(&at, None, "int cuInit(unsigned f) { return 100; }\n");
    let said = refusal(&at);
    assert!(said.contains("cuInit") && said.contains("NO_DEVICE"), "{said}");
    let at = scratch("cuda-zero");
    let special = "int cuInit(unsigned f) { return 0; }\nint cuDriverGetVersion(int *v) { *v = 13000; return 0; }\n\
                   int cuDeviceGetCount(int *n) { *n = 0; return 0; }\n";
    library(&at, None, special);
    let said = refusal(&at);
    assert!(said.contains("device 0") && said.contains("number of devices is 0"), "{said}");
}
