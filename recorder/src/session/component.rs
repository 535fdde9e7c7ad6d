//! A component: a tree of modules with a source for each tensor.

use crate::error::{Error, Result};
use crate::memory::{Checkpoint, HostTensor};
use crate::plan::{Leaf, Module, ParameterSource, build_tree};
use ddo_schemas::settings::{MAX_COMPONENT_CHARS, is_component_name};

/// A tree of modules, built from a checkpoint or from tensors in host memory.
#[derive(Clone, Debug)]
pub struct Component {
    pub(crate) name: String,
    pub(crate) root: Module,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) tensors: Vec<HostTensor>,
}

impl Component {
    /// The tree that the checkpoint's keys describe.
    ///
    /// `class_of` may name the class of a module path: `Embedding` for look-up tables, which stay on the host,
    /// `Linear`, `ModuleList` or anything else; `None` leaves it to shapes and names.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the checkpoint lacks part of what it promises, [`Error::Invalid`] for a bad name.
    pub fn from_checkpoint<'a>(
        name: &str,
        checkpoint: &Checkpoint,
        class_of: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Component> {
        checkpoint.require_complete()?;
        let leaves = checkpoint.tensors().iter().map(|(key, located)| Leaf {
            name: key.to_string(),
            dtype: located.dtype,
            shape: located.shape.clone(),
            bytes: located.range.end - located.range.start,
            source: ParameterSource::File { file: located.file, offset: located.range.start },
        });
        let root = build_tree(leaves.collect(), &|path| class_of(path).map(str::to_string));
        Ok(Component { name: checked_name(name)?, root, checkpoint: Some(checkpoint.clone()), tensors: Vec::new() })
    }

    /// The tree that the names of host tensors describe.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a bad component name or a tensor name that stands twice.
    pub fn from_tensors<'a>(
        name: &str,
        tensors: Vec<(String, HostTensor)>,
        class_of: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Component> {
        let mut names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            return Err(Error::invalid("component", format!("tensor {:?} stands twice", pair.first().unwrap_or(&""))));
        }
        let leaves = tensors.iter().enumerate().map(|(index, (name, tensor))| Leaf {
            name: name.clone(),
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
            bytes: tensor.payload_bytes(),
            source: ParameterSource::Memory { tensor: index },
        });
        let root = build_tree(leaves.collect(), &|path| class_of(path).map(str::to_string));
        let tensors = tensors.into_iter().map(|(_, tensor)| tensor).collect();
        Ok(Component { name: checked_name(name)?, root, checkpoint: None, tensors })
    }

    /// Leaves out the module at a path and everything below.
    ///
    /// # Errors
    /// [`Error::UnknownName`] when there is no such module.
    pub fn without(mut self, path: &str) -> Result<Component> {
        if self.root.remove(path) {
            Ok(self)
        } else {
            Err(Error::UnknownName { kind: "module", name: path.into(), place: format!("component {:?}", self.name) })
        }
    }

    /// Name of the component.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Retained storage that holds all files of its checkpoint, in whole segments; zero without one.
    pub fn retained_bytes(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, Checkpoint::retained_bytes)
    }

    /// The tree.
    pub fn root(&self) -> &Module {
        &self.root
    }
}

fn checked_name(name: &str) -> Result<String> {
    if is_component_name(name) {
        return Ok(name.to_string());
    }
    let reason = format!("{name:?} is not 1 to {MAX_COMPONENT_CHARS} of A-Z, a-z, 0-9, '.', '_', '-' without a leading '.'");
    Err(Error::invalid("component name", reason))
}
