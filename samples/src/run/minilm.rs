//! How does the sentence encoder run with its layers under a ceiling? Look-ups on the host, one job a layer.
//!
//! May use: the session, the model's arithmetic, its resident reference.
//!
//! Invariants: the arithmetic is the reference's own, so a difference can only come from the weights' way to it.

use super::{Outcome, Passes, RunError, Session, compare};
use crate::args::SampleArgs;
use crate::minilm::{
    Batch, EmbeddingWeights, HOST_TENSORS, LAYER_TENSORS, LAYERS, LayerWeights, Resident, Scratch, TEXTS, Tokens, embed,
    encoder_layer, pool_and_normalise,
};
use crate::model::{self, ModelFiles};
use ddo_recorder::{Checkpoint, Component, Job, JobError, Offload, UnitId, View};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The component of a checkpoint: six layers to stream, look-up tables on the host, without the pooler that nobody uses.
///
/// # Errors
/// The checkpoint has not the tensors that it needs.
pub fn encoder(checkpoint: &Checkpoint) -> Result<Component, RunError> {
    let table = |path: &str| path.ends_with("_embeddings").then_some("Embedding");
    let component = Component::from_checkpoint("encoder", checkpoint, table)?;
    let other = |error: ddo_recorder::Error| RunError::OtherModel { path: checkpoint.path().into(), what: error.to_string() };
    component.without("pooler").map_err(other)
}

/// What moves from job to job.
#[derive(Debug, Default)]
struct Forward {
    hidden: Vec<f32>,
    scratch: Scratch,
}

/// One batch on its way through an attached encoder, as often as asked.
#[derive(Debug)]
pub struct EncoderPass {
    layers: Vec<(String, UnitId)>,
    batch: Arc<Batch>,
    forward: Arc<Mutex<Forward>>,
}

impl EncoderPass {
    /// Prepares a batch for an attached encoder.
    ///
    /// # Errors
    /// The component has other units than the model.
    pub fn new(offload: &Offload, batch: Batch) -> Result<EncoderPass, RunError> {
        let layers = (0..LAYERS).map(|layer| {
            let name = format!("encoder.layer.{layer}");
            let unit = offload.unit_named(&name);
            let unit = unit.ok_or_else(|| RunError::NoUnit { name: name.clone(), have: offload.units().len() })?;
            Ok::<_, RunError>((name, unit))
        });
        let layers = layers.collect::<Result<_, _>>()?;
        Ok(EncoderPass { layers, batch: Arc::new(batch), forward: Arc::default() })
    }

    /// Submits one forward; the step is the caller's to mark.
    ///
    /// # Errors
    /// The runtime declines or fails.
    pub fn submit(&self, offload: &Offload) -> Result<(), RunError> {
        let encoder = offload.forward("encoder");
        let hidden = {
            let _range = encoder.operator("embed");
            first_hidden(offload, &self.batch)?
        };
        self.forward.lock().unwrap_or_else(PoisonError::into_inner).hidden = hidden;
        self.layers.iter().try_for_each(|(name, layer)| self.submit_layer(offload, name, *layer))
    }

    /// The batch's unit vectors, one after another. Only after the compute stream is done.
    pub fn embeddings(&self) -> Vec<f32> {
        let done = self.forward.lock().unwrap_or_else(PoisonError::into_inner);
        pool_and_normalise(&done.hidden, self.batch.seq, &self.batch.mask).concat()
    }

    /// Pins a layer and submits its job; the pins come back when the job is complete.
    fn submit_layer(&self, offload: &Offload, name: &str, layer: UnitId) -> Result<(), RunError> {
        let announced = offload.forward(name);
        let pinning = announced.operator("pin");
        let guard = offload.unit(layer)?;
        let views: Vec<View> = LAYER_TENSORS.iter().map(|(name, _)| guard.view(name)).collect::<Result<_, _>>()?;
        drop(pinning);
        let (batch, forward) = (Arc::clone(&self.batch), Arc::clone(&self.forward));
        let job = Job::host(move |context| {
            let slices = views.iter().map(|view| context.slice::<f32>(view)).collect::<Result<Vec<_>, _>>()?;
            let slices = slices.try_into().map_err(|_| JobError::new("a layer has another number of tensors"))?;
            let mut forward = forward.lock().unwrap_or_else(PoisonError::into_inner);
            let Forward { hidden, scratch } = &mut *forward;
            encoder_layer(&LayerWeights::in_order(slices), hidden, batch.batch, batch.seq, &batch.mask, scratch, Some(context))?;
            Ok(())
        });
        let _range = announced.operator("encoder_layer");
        offload.launch(offload.compute_stream(), guard, job)?;
        Ok(())
    }
}

/// Runs the batch of built-in texts for the steps asked for.
pub(super) fn run(args: &SampleArgs, target_dir: &Path) -> Result<Outcome, RunError> {
    let files = match &args.model {
        Some(path) => ModelFiles::at(path)?,
        None => {
            let files = model::find_minilm(target_dir)?;
            files.check_digest()?;
            files
        }
    };
    // The runtime's own reader first: it says best what is wrong with a checkpoint.
    let component = encoder(&Checkpoint::open(&files.weights)?)?;
    let batch = Tokens::load(&files.tokenizer)?.batch(&TEXTS)?;
    let want = Resident::load(&files.weights)?.encode(&batch)?.concat();
    let session = Session::open("encoder", component, args, ddo_recorder::LaunchScope::Units)?;
    let shape = format!("minilm, {} texts padded to {} tokens", batch.batch, batch.seq);
    let pass = EncoderPass::new(&session.offload, batch)?;
    session.run(&mut Encoding { pass, want }, shape, args)
}

/// The encoder with its resident answer.
struct Encoding {
    pass: EncoderPass,
    want: Vec<f32>,
}

impl Passes for Encoding {
    fn submit(&mut self, session: &Session) -> Result<(), RunError> {
        self.pass.submit(&session.offload)
    }

    fn check(&mut self, step: u64) -> Result<(), RunError> {
        compare(step, "the batch's embeddings", &self.pass.embeddings(), &self.want)
    }
}

/// Looks the tokens up in the tables that stay on the host.
fn first_hidden(offload: &Offload, batch: &Batch) -> Result<Vec<f32>, RunError> {
    let tables = HOST_TENSORS.iter().map(|(name, _)| offload.host_tensor(name)).collect::<Result<Vec<_>, _>>()?;
    let slices = tables.iter().map(|table| table.as_slice::<f32>()).collect::<Result<Vec<_>, _>>()?;
    let got = slices.len();
    let slices =
        slices.try_into().map_err(|_| RunError::TensorCount { what: "embeddings".into(), got, expected: HOST_TENSORS.len() })?;
    Ok(embed(&EmbeddingWeights::in_order(slices), batch)?)
}
