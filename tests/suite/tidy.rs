//! The walls of the house, checked on the real tree.
//!
//! Proves: rooms and crates use only what lies below them, unsafe code stays inside its fence, files and functions stay
//! small, every module says what it is for, no file is dead, nothing unknown lies at the top, and a few habits that hide
//! failures are absent. Each rule is a pure function over parsed source; `tidy_rules.rs` shows that each one can fail.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

pub(crate) const MAX_FILE_LINES: usize = 600;
pub(crate) const MAX_FUNCTION_LINES: usize = 80;

/// Room or crate, and those that it may use.
type Directions = &'static [(&'static str, &'static [&'static str])];

/// The recorder's rooms. Everyone may use `limits` and `error`.
const RECORDER: Directions = &[
    ("meter", &[]),
    ("limits", &[]),
    ("plan", &["meter"]),
    // Data types of views only; `plan` is pure values and knows no driver.
    ("driver", &["meter", "plan"]),
    ("memory", &["driver", "meter", "plan"]),
    ("transfer", &["memory", "driver", "meter", "plan"]),
    ("session", &["transfer", "memory", "driver", "meter", "plan", "config"]),
    ("observe", &["session", "transfer", "memory", "driver", "meter", "config"]),
    ("wrap", &["observe", "session", "transfer", "memory", "driver", "meter", "config"]),
];
const ANALYZER: Directions =
    &[("run", &[]), ("limits", &[]), ("ingest", &["run"]), ("analysis", &["run"]), ("output", &["analysis", "run"])];
/// Files beside the rooms that tie them together and may use all of them.
const ABOVE_ROOMS: &[&str] = &["lib", "main", "cli", "config", "error", "fuzz", "bin"];
/// Crate, workspace crates that it may depend on. `ddo-tests` may use everything.
const CRATES: Directions = &[
    ("ddo-schemas", &[]),
    ("ddo-recorder", &["ddo-schemas"]),
    ("ddo-analyzer", &["ddo-schemas"]),
    ("ddo-capi", &["ddo-recorder", "ddo-schemas"]),
    ("ddo-inject", &["ddo-schemas"]),
    ("ddo-samples", &["ddo-recorder", "ddo-schemas"]),
];
/// Heavy dependencies that the recorder never carries into a host.
const NOT_IN_RECORDER: &[&str] = &["polars", "plotters", "prost"];
const UNSAFE_FENCE: &[&str] = &["recorder/src/driver/", "recorder/capi/", "recorder/inject/"];
const UNSAFE_FILE: &str = "tests/suite/support/ffi.rs";
const PAUSE_FILE: &str = "tests/suite/support/mod.rs";
const TOP_FILES: &[&str] = &["Cargo.toml", "Cargo.lock", "README.md"];
const TOP_FOLDERS: &[&str] = &["recorder", "analyzer", "schemas", "samples", "tests"];

/// One broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    file: String,
    line: usize,
    pub(crate) rule: &'static str,
    text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.text)
    }
}

/// A parsed source file; `path` is relative to the workspace, with `/`.
pub(crate) struct Source {
    path: String,
    text: String,
    syntax: syn::File,
    tokens: Vec<Token>,
}

/// A token as text; groups are flattened into their brackets.
struct Token {
    text: String,
    line: usize,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> Result<Source, Violation> {
        let broken = |error: syn::Error| Violation {
            file: path.to_owned(),
            line: error.span().start().line,
            rule: "parse",
            text: error.to_string(),
        };
        let syntax = syn::parse_file(text).map_err(broken)?;
        let stream: TokenStream = syn::parse_str(text).map_err(broken)?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        Ok(Source { path: path.to_owned(), text: text.to_owned(), syntax, tokens })
    }

    fn violation(&self, line: usize, rule: &'static str, text: impl Into<String>) -> Violation {
        Violation { file: self.path.clone(), line, rule, text: text.into() }
    }

    fn is_generated(&self) -> bool {
        self.path.ends_with(".protos.rs") || self.text.lines().take(5).any(|line| line.contains("@generated"))
    }

    /// Positions where these tokens follow each other.
    fn find<'a>(&'a self, pattern: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
        let fits = move |window: &[Token]| window.iter().zip(pattern).all(|(token, wanted)| token.text == *wanted);
        self.tokens.windows(pattern.len()).enumerate().filter(move |(_, window)| fits(window)).map(|(at, _)| at)
    }

    /// Token texts from a position on, up to the bracket that closes the one opened just before it.
    fn until_closed(&self, from: usize) -> impl Iterator<Item = (usize, &Token)> {
        let mut depth = 0_usize;
        self.tokens.iter().skip(from).map_while(move |token| {
            let at = depth;
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            Some((at, token))
        })
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        let TokenTree::Group(group) = tree else {
            tokens.push(Token { text: tree.to_string(), line });
            continue;
        };
        let brackets = match group.delimiter() {
            Delimiter::Parenthesis => Some(("(", ")")),
            Delimiter::Bracket => Some(("[", "]")),
            Delimiter::Brace => Some(("{", "}")),
            Delimiter::None => None,
        };
        let end = group.span_close().end().line;
        tokens.extend(brackets.map(|(open, _)| Token { text: open.to_owned(), line }));
        flatten(group.stream(), tokens);
        tokens.extend(brackets.map(|(_, close)| Token { text: close.to_owned(), line: end }));
    }
}

/// Crate table, room and whether the file is the room's own root, for a file of the two crates that have rooms.
fn room_of(path: &str) -> Option<(Directions, &str, bool)> {
    let (rooms, inner) = match (path.strip_prefix("recorder/src/"), path.strip_prefix("analyzer/src/")) {
        (Some(inner), _) => (RECORDER, inner),
        (_, Some(inner)) => (ANALYZER, inner),
        _ => return None,
    };
    match inner.split_once('/') {
        Some((room, rest)) => Some((rooms, room, rest == "mod.rs")),
        None => Some((rooms, inner.strip_suffix(".rs").unwrap_or(inner), true)),
    }
}

/// Room directions: paths from `crate::` (in code, `use` lists and macros) and from a room's root through `super::`.
pub(crate) fn room_directions(source: &Source) -> Vec<Violation> {
    let mut found: Vec<Violation> = source
        .find(&["super", ":", ":", "super"])
        .map(|at| source.violation(source.tokens[at].line, "super::super", "name the room from crate:: instead"))
        .collect();
    let Some((rooms, room, is_root)) = room_of(&source.path) else { return found };
    if ABOVE_ROOMS.contains(&room) {
        return found;
    }
    let Some((_, allowed)) = rooms.iter().find(|(name, _)| *name == room) else {
        found.push(source.violation(1, "room direction", format!("{room:?} is no room of the house")));
        return found;
    };
    let known = |name: &str| rooms.iter().any(|(room, _)| *room == name) || ABOVE_ROOMS.contains(&name);
    let mut targets = targets_after(source, "crate");
    if is_root {
        targets.extend(targets_after(source, "super"));
    }
    for target in targets {
        let name = target.text.as_str();
        let free = name == room || name == "error" || (name == "limits" && room != "limits");
        if known(name) && !free && !allowed.contains(&name) {
            let text = format!("{room} uses {name}; it may use [{}], limits and error", allowed.join(", "));
            found.push(source.violation(target.line, "room direction", text));
        }
    }
    found
}

/// The first names after `start::`, each of them where a list in braces follows.
fn targets_after<'a>(source: &'a Source, start: &str) -> Vec<&'a Token> {
    let mut targets = Vec::new();
    for at in source.find(&[start, ":", ":"]) {
        match source.tokens.get(at + 3) {
            Some(token) if token.text == "{" => {
                let mut first = true;
                for (depth, token) in source.until_closed(at + 4) {
                    if depth == 0 && std::mem::replace(&mut first, token.text == ",") {
                        targets.push(token);
                    }
                }
            }
            other => targets.extend(other),
        }
    }
    targets
}

/// Crate directions, from one manifest.
pub(crate) fn crate_directions(path: &str, text: &str) -> Vec<Violation> {
    let violation = |line, text: String| Violation { file: path.to_owned(), line, rule: "crate direction", text };
    let table: toml::Table = match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => return vec![violation(1, error.to_string())],
    };
    let name = table.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    let Some(name) = name.filter(|name| *name != "ddo-tests") else { return Vec::new() };
    let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
        return vec![violation(1, format!("{name} is no crate of the house"))];
    };
    let mut found = Vec::new();
    for (key, package) in dependencies(&table) {
        let line = 1 + text.lines().position(|line| line.trim_start().starts_with(&key)).unwrap_or_default();
        if package.starts_with("ddo-") && !allowed.contains(&package.as_str()) {
            found.push(violation(line, format!("{name} depends on {package}; it may use [{}]", allowed.join(", "))));
        }
        if name == "ddo-recorder" && NOT_IN_RECORDER.iter().any(|banned| package.starts_with(banned)) {
            found.push(violation(line, format!("the recorder must not carry {package} into a host")));
        }
    }
    found
}

/// Every dependency of every kind and target: its key and the package behind it.
fn dependencies(table: &toml::Table) -> Vec<(String, String)> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let mut tables: Vec<&toml::Table> = vec![table];
    let targets = table.get("target").and_then(toml::Value::as_table);
    tables.extend(targets.into_iter().flat_map(|targets| targets.values()).filter_map(toml::Value::as_table));
    let lists = tables.into_iter().flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)?.as_table()));
    let package = |(key, value): (&String, &toml::Value)| {
        let renamed = value.get("package").and_then(toml::Value::as_str);
        (key.clone(), renamed.unwrap_or(key).to_owned())
    };
    lists.flatten().map(package).collect()
}

/// `unsafe` in any form, and lifting its lint, only inside the fence.
pub(crate) fn unsafe_fence(source: &Source) -> Vec<Violation> {
    if source.path == UNSAFE_FILE || UNSAFE_FENCE.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let outside = |at: usize, what: &str| {
        let text = format!("{what} outside {} and {UNSAFE_FILE}", UNSAFE_FENCE.join(", "));
        source.violation(source.tokens[at].line, "unsafe fence", text)
    };
    let mut found: Vec<Violation> = source.find(&["unsafe"]).map(|at| outside(at, "unsafe")).collect();
    for lift in ["allow", "expect", "warn"] {
        for at in source.find(&[lift, "("]) {
            if source.until_closed(at + 2).any(|(_, token)| token.text == "unsafe_code") {
                found.push(outside(at, &format!("{lift}(unsafe_code)")));
            }
        }
    }
    found
}

/// Lines of a file and of each function; functions of `#[cfg(test)]` modules are not limited.
pub(crate) fn sizes(source: &Source, is_test_module: bool) -> Vec<Violation> {
    if source.is_generated() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let lines = source.text.lines().count();
    if lines > MAX_FILE_LINES {
        found.push(source.violation(lines, "file size", format!("{lines} lines, the limit is {MAX_FILE_LINES}")));
    }
    if !is_test_module {
        let mut functions = Functions { found: Vec::new() };
        functions.visit_file(&source.syntax);
        for (name, line, lines) in functions.found.into_iter().filter(|(_, _, lines)| *lines > MAX_FUNCTION_LINES) {
            let text = format!("fn {name} has {lines} lines, the limit is {MAX_FUNCTION_LINES}");
            found.push(source.violation(line, "function size", text));
        }
    }
    found
}

/// Name, first line and number of lines of every function with a body.
struct Functions {
    found: Vec<(String, usize, usize)>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let last = block.brace_token.span.close().end().line;
        self.found.push((signature.ident.to_string(), first, 1 + last.saturating_sub(first)));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_cfg_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// True for `#[cfg(test)]` and `#[cfg(all(test, ..))]`.
fn is_cfg_test(attributes: &[syn::Attribute]) -> bool {
    let cfg = |attribute: &&syn::Attribute| attribute.path().is_ident("cfg");
    attributes.iter().filter(cfg).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let mut tokens = Vec::new();
        flatten(list.tokens.clone(), &mut tokens);
        let has = |word: &str| tokens.iter().any(|token| token.text == word);
        has("test") && !has("not") && !has("any")
    })
}

/// The inner documentation of a file, its white space evened out.
fn module_docs(syntax: &syn::File) -> String {
    let doc = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<String> = syntax.attrs.iter().filter_map(doc).collect();
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every file opens with `//!`; a room's root also says what it may use, and its invariants.
pub(crate) fn documents(source: &Source) -> Vec<Violation> {
    if source.is_generated() {
        return Vec::new();
    }
    let docs = module_docs(&source.syntax).to_lowercase();
    if docs.is_empty() {
        return vec![source.violation(1, "module docs", "the file does not open with //! documentation")];
    }
    let room_root = room_of(&source.path).is_some_and(|(_, room, root)| root && !ABOVE_ROOMS.contains(&room));
    if !room_root || !source.path.ends_with("/mod.rs") {
        return Vec::new();
    }
    let lacks = |words: &&str| !docs.contains(*words);
    let text = |words| source.violation(1, "module docs", format!("the room's documentation lacks the words {words:?}"));
    ["may use", "invariants"].into_iter().filter(lacks).map(text).collect()
}

/// Habits that hide failures.
pub(crate) fn habits(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut add = |at: usize, text: &str| found.push(source.violation(source.tokens[at].line, "habit", text));
    for at in source.find(&["unwrap_or", "("]) {
        if let [zero, close, ..] = &source.tokens[at + 2..]
            && close.text == ")"
            && zero.text.starts_with('0')
            && zero.text.trim_start_matches(['0', '.', '_']).chars().next().is_none_or(|c| matches!(c, 'u' | 'i' | 'f'))
        {
            add(at, "unwrap_or(0): an unavailable value is no zero");
        }
    }
    for name in ["todo", "unimplemented"] {
        for open in ["(", "[", "{"] {
            source.find(&[name, "!", open]).for_each(|at| add(at, "unfinished code"));
        }
    }
    for at in source.find(&["#", "["]) {
        let mut inside = source.until_closed(at + 2).map(|(_, token)| token.text.as_str());
        let first = inside.next();
        if first == Some("ignore") || (first == Some("cfg_attr") && inside.any(|text| text == "ignore")) {
            add(at, "#[ignore]: a test that does not run proves nothing");
        }
    }
    // One place may pause between two looks at another process, which has no clock to step.
    if source.path.starts_with("tests/suite/") && source.path != PAUSE_FILE {
        source.find(&["sleep"]).for_each(|at| add(at, "sleep in a test: step the clock instead"));
    }
    found
}

/// Top-level names that do not belong there.
pub(crate) fn top_level(names: &[(String, bool)]) -> Vec<Violation> {
    let belongs = |name: &str, is_folder: bool| {
        let known = if is_folder { TOP_FOLDERS } else { TOP_FILES };
        let license = !is_folder && name.starts_with("LICENSE-");
        known.contains(&name) || license || name.starts_with('.') || (is_folder && name.starts_with("target"))
    };
    let unknown = names.iter().filter(|(name, is_folder)| !belongs(name, *is_folder));
    unknown
        .map(|(name, _)| Violation {
            file: name.clone(),
            line: 1,
            rule: "top level",
            text: "not one of the files and folders that the house has".to_owned(),
        })
        .collect()
}

fn is_crate_root(path: &str) -> bool {
    let Some((folder, file)) = path.rsplit_once('/') else { return false };
    let in_bin = |folder: &str| folder.ends_with("/src/bin");
    let target = matches!(file, "lib.rs" | "main.rs");
    let own_folder = folder.rsplit_once('/').is_some_and(|(above, _)| target && in_bin(above));
    (target && (folder.ends_with("/src") || folder == "tests" || folder == "tests/suite")) || in_bin(folder) || own_folder
}

/// Reachable files, and whether only through a `#[cfg(test)]` module.
pub(crate) fn reachable(sources: &BTreeMap<String, Source>) -> BTreeMap<String, bool> {
    let mut reached: BTreeMap<String, bool> = BTreeMap::new();
    let mut open: Vec<(String, bool)> =
        sources.keys().filter(|path| is_crate_root(path)).map(|path| (path.clone(), false)).collect();
    while let Some((path, is_test)) = open.pop() {
        let Some(source) = sources.get(&path) else { continue };
        match reached.get(&path) {
            Some(known) if !*known || is_test => continue,
            _ => reached.insert(path.clone(), is_test),
        };
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        let own = if is_crate_root(&path) || stem == "mod" { folder.to_owned() } else { format!("{folder}/{stem}") };
        declared(&source.syntax.items, [&own, folder, folder], is_test, &mut open);
    }
    reached
}

/// Adds the files that `mod` and `include!` items may mean; `own` is the folder of child modules, `beside` the one of `#[path]`.
/// `here` is the folder of the file itself.
fn declared(items: &[syn::Item], [own, beside, here]: [&str; 3], is_test: bool, open: &mut Vec<(String, bool)>) {
    for item in items {
        if let syn::Item::Macro(item) = item
            && item.mac.path.is_ident("include")
            && let Ok(file) = item.mac.parse_body::<syn::LitStr>()
        {
            open.push((normal(&format!("{here}/{}", file.value())), is_test));
        }
        let syn::Item::Mod(item) = item else { continue };
        let name = item.ident.to_string();
        let is_test = is_test || is_cfg_test(&item.attrs);
        if let Some((_, items)) = &item.content {
            let inner = format!("{own}/{name}");
            declared(items, [&inner, &inner, here], is_test, open);
            continue;
        }
        let explicit = item.attrs.iter().find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        });
        match explicit {
            Some(path) => open.push((normal(&format!("{beside}/{path}")), is_test)),
            None => open.extend([format!("{own}/{name}.rs"), format!("{own}/{name}/mod.rs")].map(|path| (path, is_test))),
        }
    }
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Source files that no crate root reaches.
pub(crate) fn dead_files(sources: &BTreeMap<String, Source>, reached: &BTreeMap<String, bool>) -> Vec<Violation> {
    let subject = |path: &str| path.contains("/src/") || path.starts_with("tests/suite/") || path == "tests/lib.rs";
    let dead = sources.values().filter(|source| subject(&source.path) && !reached.contains_key(&source.path));
    dead.map(|source| source.violation(1, "dead file", "no mod or include! leads here from a crate root")).collect()
}

/// Reads the tree: every `.rs` and every `Cargo.toml` below the known folders.
fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if name.starts_with('.') || name.starts_with("target") || path == "tests/data" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else if name.ends_with(".rs") || name == "Cargo.toml" {
            files.insert(path, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

#[test]
fn the_house_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    let mut files = BTreeMap::new();
    collect(root, "", &mut files);
    let mut sources = BTreeMap::new();
    for (path, text) in &files {
        if path.ends_with("Cargo.toml") {
            found.extend(crate_directions(path, text));
            continue;
        }
        match Source::parse(path, text) {
            Ok(source) => drop(sources.insert(path.clone(), source)),
            Err(violation) => drop(found.insert(violation)),
        }
    }
    let reached = reachable(&sources);
    for source in sources.values() {
        let is_test_module = reached.get(&source.path).copied().unwrap_or_default();
        found.extend(room_directions(source));
        found.extend(unsafe_fence(source));
        found.extend(sizes(source, is_test_module));
        found.extend(documents(source));
        found.extend(habits(source));
    }
    found.extend(dead_files(&sources, &reached));
    let top = fs::read_dir(root).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().to_string_lossy().into_owned(), entry.file_type().unwrap().is_dir())
    });
    found.extend(top_level(&top.collect::<Vec<_>>()));
    assert!(sources.len() > 10, "only {} source files were found below {}", sources.len(), root.display());
    let lines: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(lines.is_empty(), "{} rules of the house are broken:\n{}", lines.len(), lines.join("\n"));
}
