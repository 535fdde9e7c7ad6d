//! Each rule of `tidy.rs` on small sources: every rule can fail, and fails only where it should.

use crate::tidy::*;
use std::collections::BTreeMap;

fn source(path: &str, text: &str) -> Source {
    Source::parse(path, text).unwrap_or_else(|violation| panic!("{violation}"))
}

/// The violations of one rule on one source, as text.
fn broken(rule: fn(&Source) -> Vec<Violation>, path: &str, text: &str) -> Vec<String> {
    rule(&source(path, text)).iter().map(Violation::to_string).collect()
}

fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Source> {
    files.iter().map(|(path, text)| ((*path).to_owned(), source(path, text))).collect()
}

#[test]
fn a_room_that_looks_up_is_found_in_every_spelling() {
    let upward = [
        "use crate::session::Unit;",
        "use crate::{meter::Clock, session::Unit};",
        "use {crate::session::Unit};",
        "fn f(unit: &crate::session::Unit) {}",
        "fn f() { crate::session::start(); }",
        "fn f() { println!(\"{}\", crate::session::NAME); }",
        "macro_rules! m { () => { $crate::session::start() } }",
        "mod inner { use crate::session as s; }",
        "use crate::cli;",
        "use crate::config::Config;",
    ];
    for text in upward {
        let found = broken(room_directions, "recorder/src/memory/slots.rs", text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with("recorder/src/memory/slots.rs:1: room direction: memory uses "), "{}", found[0]);
    }
    let downward = [
        "use crate::{driver::{session, Driver}, meter, plan, limits, error::Error, memory::arena, Shared};",
        "use super::session;",
        "pub(crate) fn f() { session::go(); self::session::go() }",
        "/// See [`crate::session::Unit`].\nfn f() { let text = \"crate::session\"; }",
    ];
    for text in downward {
        assert_eq!(broken(room_directions, "recorder/src/memory/slots.rs", text), [""; 0], "{text}");
    }
    assert_eq!(broken(room_directions, "recorder/src/memory/mod.rs", "use super::session;").len(), 1);
    assert_eq!(broken(room_directions, "recorder/src/lib.rs", "use crate::session;"), [""; 0]);
}

#[test]
fn every_direction_of_the_two_crates_holds() {
    let allowed = |krate: &str, from: &str, to: &str| {
        let path = format!("{krate}/src/{from}/x.rs");
        broken(room_directions, &path, &format!("use crate::{to}::X;")).is_empty()
    };
    let order = ["meter", "driver", "memory", "transfer", "session", "observe", "wrap"];
    for (low, lower) in order.iter().enumerate() {
        for (high, higher) in order.iter().enumerate() {
            assert_eq!(allowed("recorder", higher, lower), low <= high, "{higher} -> {lower}");
        }
    }
    let users: Vec<&str> = order.into_iter().filter(|room| allowed("recorder", room, "plan")).collect();
    assert_eq!(users, ["driver", "memory", "transfer", "session"]);
    assert!(allowed("recorder", "plan", "meter") && !allowed("recorder", "plan", "driver"));
    let pairs = [("output", "analysis"), ("output", "run"), ("analysis", "run"), ("ingest", "run")];
    let rooms = ["ingest", "run", "analysis", "output"];
    for from in rooms {
        for to in rooms {
            assert_eq!(allowed("analyzer", from, to), from == to || pairs.contains(&(from, to)), "{from} -> {to}");
        }
    }
    assert!(allowed("analyzer", "run", "limits") && allowed("analyzer", "run", "error"));
}

#[test]
fn super_super_and_unknown_rooms_are_found() {
    let found = broken(room_directions, "schemas/src/sections/vmm.rs", "\nuse super::super::unit;");
    assert_eq!(found, ["schemas/src/sections/vmm.rs:2: super::super: name the room from crate:: instead"]);
    assert_eq!(broken(room_directions, "recorder/src/helpers/mod.rs", "").len(), 1);
    assert_eq!(broken(room_directions, "analyzer/src/util.rs", "").len(), 1);
    assert_eq!(broken(room_directions, "recorder/src/limits.rs", "use crate::driver::X;").len(), 1);
}

#[test]
fn crates_meet_only_where_they_may() {
    let manifest =
        |name: &str, rest: &str| crate_directions("x/Cargo.toml", &format!("[package]\nname = \"{name}\"\n{rest}")).len();
    assert_eq!(manifest("ddo-recorder", "[dependencies]\nddo-schemas.workspace = true\nserde = \"1\""), 0);
    assert_eq!(manifest("ddo-samples", "[dependencies]\nddo-recorder.workspace = true"), 0);
    assert_eq!(manifest("ddo-tests", "[dev-dependencies]\nddo-analyzer.workspace = true"), 0);
    assert_eq!(manifest("ddo-schemas", "[dev-dependencies]\nddo-recorder.workspace = true"), 1);
    assert_eq!(manifest("ddo-analyzer", "[dependencies]\nddo-recorder.workspace = true"), 1);
    assert_eq!(manifest("ddo-samples", "[build-dependencies]\nddo-analyzer.workspace = true"), 1);
    assert_eq!(manifest("ddo-recorder", "[target.'cfg(unix)'.dependencies]\npolars-io = \"1\""), 1);
    assert_eq!(manifest("ddo-recorder", "[dependencies]\nplots = { package = \"plotters\", version = \"1\" }"), 1);
    assert_eq!(manifest("ddo-recorder", "[dependencies]\nprost.workspace = true"), 1);
    assert_eq!(manifest("ddo-extra", ""), 1);
    assert_eq!(manifest("ddo-extra", "["), 1);
    let found = crate_directions("x/Cargo.toml", "[package]\nname = \"ddo-analyzer\"\n[dependencies]\nddo-recorder = \"1\"");
    assert!(found[0].to_string().starts_with("x/Cargo.toml:4: "), "{}", found[0]);
}

#[test]
fn unsafe_code_is_found_outside_its_fence_only() {
    let kinds = [
        "fn f() { unsafe { g() } }",
        "unsafe fn f() {}",
        "unsafe impl Send for X {}",
        "#[allow(unsafe_code)]\nfn f() {}",
        "#![cfg_attr(unix, expect(dead_code, unsafe_code))]",
        "macro_rules! m { () => { unsafe { g() } } }",
    ];
    for text in kinds {
        assert_eq!(broken(unsafe_fence, "recorder/src/memory/arena.rs", text).len(), 1, "{text}");
        assert_eq!(broken(unsafe_fence, "tests/suite/support/other.rs", text).len(), 1, "{text}");
        for path in [
            "recorder/src/driver/cuda.rs",
            "recorder/capi/src/lib.rs",
            "recorder/inject/src/lib.rs",
            "tests/suite/support/ffi.rs",
        ] {
            assert_eq!(broken(unsafe_fence, path, text), [""; 0], "{path} {text}");
        }
    }
    let harmless = "#![forbid(unsafe_code)]\n//! unsafe words\nfn unsafe_like() -> &'static str { \"unsafe\" }";
    assert_eq!(broken(unsafe_fence, "recorder/src/memory/arena.rs", harmless), [""; 0]);
}

#[test]
fn long_files_and_functions_are_found() {
    let rules = |text: &str, is_test| -> Vec<String> {
        sizes(&source("schemas/src/x.rs", text), is_test).iter().map(|violation| violation.rule.to_owned()).collect()
    };
    let body = |lines: usize| "\n".repeat(lines - 1);
    for (open, close) in
        [("fn f() {", "}"), ("impl X { fn f() {", "} }"), ("trait X { fn f() {", "} }"), ("mod m { fn f() {", "} }")]
    {
        assert_eq!(rules(&format!("{open}{}{close}", body(MAX_FUNCTION_LINES)), false), [""; 0], "{open}");
        let long = format!("{open}{}{close}", body(MAX_FUNCTION_LINES + 1));
        assert_eq!(rules(&long, false), ["function size"], "{open}");
        assert_eq!(rules(&long, true), [""; 0], "{open}");
    }
    let long = body(MAX_FUNCTION_LINES + 1);
    assert_eq!(rules(&format!("#[cfg(test)]\nmod tests {{ fn f() {{{long}}} }}"), false), [""; 0]);
    assert_eq!(rules(&format!("#[cfg(not(test))]\nmod real {{ fn f() {{{long}}} }}"), false), ["function size"]);
    assert_eq!(rules(&"\n".repeat(MAX_FILE_LINES), false), [""; 0]);
    let file = "\n".repeat(MAX_FILE_LINES + 1);
    assert_eq!(rules(&file, true), ["file size"]);
    assert_eq!(rules(&format!("// @generated\n{file}"), false), [""; 0]);
    assert!(sizes(&source("schemas/src/x.protos.rs", &file), false).is_empty());
}

#[test]
fn silent_modules_are_found() {
    assert_eq!(broken(documents, "schemas/src/x.rs", "// words\nfn f() {}").len(), 1);
    assert_eq!(broken(documents, "schemas/src/x.rs", "/// Words.\nfn f() {}").len(), 1);
    assert_eq!(broken(documents, "schemas/src/x.rs", "//! Words."), [""; 0]);
    assert_eq!(broken(documents, "recorder/src/memory/mod.rs", "//! Words.").len(), 2);
    assert_eq!(broken(documents, "recorder/src/memory/mod.rs", "//! May use: driver.").len(), 1);
    assert_eq!(broken(documents, "recorder/src/memory/mod.rs", "//! It may\n//! use driver. INVARIANTS: none."), [""; 0]);
    assert_eq!(broken(documents, "recorder/src/memory/arena/mod.rs", "//! Words."), [""; 0]);
}

#[test]
fn habits_that_hide_failures_are_found() {
    let bad = [
        "fn f() { x.unwrap_or(0); }",
        "fn f() { x.unwrap_or(0_u64) }",
        "fn f() { x.unwrap_or(0.0) }",
        "fn f() { println!(\"{}\", x.unwrap_or(0)) }",
        "fn f() { todo!() }",
        "fn f() { unimplemented!(\"later\") }",
        "#[test]\n#[ignore]\nfn f() {}",
        "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
        "#[cfg_attr(windows, ignore)]\nfn f() {}",
    ];
    for text in bad {
        assert_eq!(broken(habits, "schemas/src/x.rs", text).len(), 1, "{text}");
    }
    let good = "#[must_use]\nfn f() { x.unwrap_or(10); x.unwrap_or(0x10); x.unwrap_or(0 + y); let s = \"todo!()\"; ignore(); }";
    assert_eq!(broken(habits, "schemas/src/x.rs", good), [""; 0]);
    for text in ["fn f() { std::thread::sleep(d) }", "use std::thread::{self, sleep as nap};"] {
        assert_eq!(broken(habits, "tests/suite/x.rs", text).len(), 1, "{text}");
        assert_eq!(broken(habits, "samples/src/x.rs", text), [""; 0]);
        assert_eq!(broken(habits, "tests/suite/support/mod.rs", text), [""; 0]);
    }
}

#[test]
fn strangers_at_the_top_are_found() {
    let found = |names: &[(&str, bool)]| {
        let names: Vec<(String, bool)> = names.iter().map(|(name, folder)| ((*name).to_owned(), *folder)).collect();
        top_level(&names).len()
    };
    let known = [("Cargo.toml", false), ("LICENSE-MIT", false), (".ci", true), ("target-win", true), ("tests", true)];
    assert_eq!(found(&known), 0);
    assert_eq!(found(&[("notes.md", false), ("docs", true), ("tests", false), ("README.md", true), ("targets.txt", false)]), 5);
}

#[test]
fn dead_files_are_found_and_reached_ones_are_not() {
    let sources = tree(&[
        ("a/src/lib.rs", "mod one; #[path = \"odd/name.rs\"] mod two; mod inline { mod deep; } #[cfg(test)] mod lib_tests;"),
        ("a/src/one/mod.rs", "mod three;"),
        ("a/src/one/three.rs", "mod four;"),
        ("a/src/one/three/four.rs", ""),
        ("a/src/odd/name.rs", ""),
        ("a/src/inline/deep.rs", ""),
        ("a/src/lib_tests.rs", ""),
        ("a/src/bin/tool.rs", "mod part; mod words { include!(\"words.protos.rs\"); }"),
        ("a/src/bin/words.protos.rs", ""),
        ("a/src/bin/part.rs", ""),
        ("a/src/one.rs.rs", ""),
        ("a/src/one/left.rs", "mod three;"),
        ("a/src/two.rs", ""),
        ("tests/suite/main.rs", "mod story;"),
        ("tests/suite/story.rs", ""),
        ("tests/suite/forgotten.rs", ""),
        ("a/build.rs", ""),
    ]);
    let reached = reachable(&sources);
    assert_eq!((reached["a/src/lib_tests.rs"], reached["a/src/one/three/four.rs"]), (true, false));
    let dead: Vec<String> = dead_files(&sources, &reached).iter().map(Violation::to_string).collect();
    let files: Vec<&str> = dead.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(files, ["a/src/one.rs.rs", "a/src/one/left.rs", "a/src/two.rs", "tests/suite/forgotten.rs"]);
}
