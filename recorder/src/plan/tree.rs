//! A component as a tree of modules, and its execution units.
//!
//! An execution unit is the outermost item of a repeated module list (`layer.0`, `layer.1`, ..), else a linear module
//! by itself. Everything else stays on the host.

use super::checkpoint::Dtype;
use std::collections::BTreeMap;

/// Where the bytes of a parameter lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParameterSource {
    /// In a checkpoint file.
    File {
        /// Index of the file.
        file: usize,
        /// First byte in the file.
        offset: u64,
    },
    /// In host memory.
    Memory {
        /// Index of the host tensor.
        tensor: usize,
    },
}

/// A tensor of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name inside its module.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Elements in each dimension, outermost first.
    pub shape: Vec<u64>,
    /// Payload in bytes.
    pub bytes: u64,
    /// Where its bytes lie.
    pub source: ParameterSource,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Dotted path; empty for the root.
    pub path: String,
    /// What it is: `Linear`, `Embedding`, `ModuleList`, `Norm` or `Module`.
    pub class: String,
    /// Children, list items in numeric order.
    pub children: Vec<Module>,
    /// Tensors of this module itself.
    pub parameters: Vec<Parameter>,
    /// Tensors that are no weights, such as position indexes. They are never managed.
    pub buffers: Vec<Parameter>,
}

impl Module {
    /// Modules with tensors of their own, this one included.
    pub fn module_count(&self) -> u64 {
        let own = u64::from(!self.parameters.is_empty() || !self.buffers.is_empty());
        own + self.children.iter().map(Module::module_count).sum::<u64>()
    }

    /// Removes the module at a path and everything below; false when there is none.
    pub fn remove(&mut self, path: &str) -> bool {
        let before = self.children.len();
        self.children.retain(|child| child.path != path);
        self.children.len() != before || self.children.iter_mut().any(|child| child.remove(path))
    }

    /// All tensors with their full names.
    pub fn tensors(&self) -> Vec<(String, &Parameter)> {
        let mut all = Vec::new();
        self.collect(&mut all);
        all
    }

    fn collect<'a>(&'a self, into: &mut Vec<(String, &'a Parameter)>) {
        into.extend(self.parameters.iter().chain(&self.buffers).map(|p| (join(&self.path, &p.name), p)));
        self.children.iter().for_each(|child| child.collect(into));
    }
}

/// A tensor on its way into a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Full dotted name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Elements in each dimension.
    pub shape: Vec<u64>,
    /// Payload in bytes.
    pub bytes: u64,
    /// Where its bytes lie.
    pub source: ParameterSource,
}

/// Index and truth tables are no weights; packed 8-bit payloads are.
fn is_weight(dtype: Dtype) -> bool {
    !matches!(dtype, Dtype::Bool | Dtype::I16 | Dtype::U16 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

/// Builds the tree that dotted names describe. `class_of` may name the class of a path; the rest is guessed from
/// names and shapes.
pub fn build_tree(leaves: Vec<Leaf>, class_of: &dyn Fn(&str) -> Option<String>) -> Module {
    build("", leaves.into_iter().map(|leaf| (leaf.name.clone(), leaf)).collect(), class_of)
}

fn build(path: &str, leaves: Vec<(String, Leaf)>, class_of: &dyn Fn(&str) -> Option<String>) -> Module {
    let mut parameters = Vec::new();
    let mut buffers = Vec::new();
    let mut below: BTreeMap<ChildName, Vec<(String, Leaf)>> = BTreeMap::new();
    for (rest, leaf) in leaves {
        match rest.split_once('.') {
            Some((child, rest)) => below.entry(ChildName::new(child)).or_default().push((rest.to_string(), leaf)),
            None => {
                let parameter =
                    Parameter { name: rest, dtype: leaf.dtype, shape: leaf.shape, bytes: leaf.bytes, source: leaf.source };
                if is_weight(parameter.dtype) { parameters.push(parameter) } else { buffers.push(parameter) }
            }
        }
    }
    let numbered = !below.is_empty() && below.keys().all(|name| name.number.is_some()) && parameters.is_empty();
    let children: Vec<Module> =
        below.into_iter().map(|(name, leaves)| build(&join(path, &name.text), leaves, class_of)).collect();
    let class = class_of(path).unwrap_or_else(|| guess_class(numbered, &parameters).to_string());
    Module { path: path.to_string(), class, children, parameters, buffers }
}

fn guess_class(numbered: bool, parameters: &[Parameter]) -> &'static str {
    let weight_rank = parameters.iter().find(|p| p.name == "weight").map(|p| p.shape.len());
    match (numbered, weight_rank) {
        (true, _) => "ModuleList",
        (_, Some(2)) => "Linear",
        (_, Some(1)) => "Norm",
        _ => "Module",
    }
}

/// Orders list items by number and everything else by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChildName {
    number: Option<u64>,
    text: String,
}

impl ChildName {
    fn new(text: &str) -> ChildName {
        let number = text.parse().ok().filter(|number: &u64| number.to_string() == text);
        ChildName { number, text: text.to_string() }
    }
}

/// A unit before it has a place: its tensors, named relative to the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedUnit {
    /// Path of the module that makes up the unit.
    pub name: String,
    /// Its tensors, in the order in which their bytes lie at the source.
    pub parameters: Vec<Parameter>,
}

/// The units of a component and what stays on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Units in tree order.
    pub units: Vec<PlannedUnit>,
    /// Tensors outside all units, with full names.
    pub host: Vec<(String, Parameter)>,
}

/// Finds the execution units of a tree.
pub fn execution_units(root: &Module) -> Units {
    let mut found = Units::default();
    visit(root, &mut found);
    found
}

fn visit(module: &Module, found: &mut Units) {
    if module.class == "Linear" && !module.parameters.is_empty() {
        found.units.push(unit_of(module));
        found.host.extend(module.buffers.iter().map(|b| (join(&module.path, &b.name), b.clone())));
        return;
    }
    let own = module.parameters.iter().chain(&module.buffers);
    found.host.extend(own.map(|p| (join(&module.path, &p.name), p.clone())));
    for child in &module.children {
        if module.class == "ModuleList" {
            let unit = unit_of(child);
            if !unit.parameters.is_empty() {
                found.units.push(unit);
            }
            let buffers = child.tensors().into_iter().filter(|(_, p)| !is_weight(p.dtype));
            found.host.extend(buffers.map(|(name, p)| (name, p.clone())));
        } else {
            visit(child, found);
        }
    }
}

fn unit_of(module: &Module) -> PlannedUnit {
    let prefix = join(&module.path, "");
    let tensors = module.tensors().into_iter().filter(|(_, p)| is_weight(p.dtype));
    let mut parameters: Vec<Parameter> = tensors
        .map(|(name, p)| Parameter { name: name.strip_prefix(&prefix).unwrap_or(&name).to_string(), ..p.clone() })
        .collect();
    parameters.sort_by(|a, b| (a.source, &a.name).cmp(&(b.source, &b.name)));
    PlannedUnit { name: module.path.clone(), parameters }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(name: &str, shape: &[u64], offset: u64) -> Leaf {
        let bytes = 4 * shape.iter().product::<u64>();
        let source = ParameterSource::File { file: 0, offset };
        Leaf { name: name.into(), dtype: Dtype::F32, shape: shape.to_vec(), bytes, source }
    }

    fn names(root: &Module) -> Vec<String> {
        execution_units(root).units.iter().map(|unit| unit.name.clone()).collect()
    }

    #[test]
    fn list_items_are_units_in_numeric_order_and_tables_stay_on_the_host() {
        let mut leaves =
            vec![leaf("embed.words.weight", &[10, 4], 0), leaf("embed.norm.weight", &[4], 0), leaf("head.weight", &[4, 4], 0)];
        for layer in [10, 2, 0] {
            leaves.push(leaf(&format!("encoder.layer.{layer}.b.weight"), &[4, 4], 64));
            leaves.push(leaf(&format!("encoder.layer.{layer}.a.weight"), &[4, 4], 128));
        }
        let root = build_tree(leaves, &|path| (path == "embed.words").then(|| "Embedding".into()));
        assert_eq!(names(&root), ["encoder.layer.0", "encoder.layer.2", "encoder.layer.10", "head"]);
        let units = execution_units(&root);
        let order: Vec<_> = units.units[0].parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(order, ["b.weight", "a.weight"], "in source order");
        let host: Vec<_> = units.host.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(host, ["embed.norm.weight", "embed.words.weight"]);
    }

    #[test]
    fn only_the_outermost_list_makes_units() {
        let leaves = vec![leaf("blocks.0.mlp.0.weight", &[2, 2], 0), leaf("blocks.0.mlp.1.weight", &[2, 2], 16)];
        assert_eq!(names(&build_tree(leaves, &|_| None)), ["blocks.0"]);
    }

    #[test]
    fn a_removed_module_is_gone_with_everything_below() {
        let mut root = build_tree(vec![leaf("pooler.dense.weight", &[2, 2], 0), leaf("x.weight", &[2, 2], 0)], &|_| None);
        assert!(root.remove("pooler") && !root.remove("pooler"));
        assert_eq!(names(&root), ["x"]);
    }
}
