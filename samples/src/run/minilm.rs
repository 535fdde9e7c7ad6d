//! How does the sentence encoder run with its layers under a ceiling? Look-ups on the host, one job a layer.
//!
//! May use: the session, the model's arithmetic, its resident reference.
//!
//! Invariants: the arithmetic is the reference's own, so a difference can only come from the weights' way to it.

use super::{Outcome, RunError, Session, compare};
use crate::args::SampleArgs;
use crate::minilm::{
    Batch, EmbeddingWeights, HOST_TENSORS, LAYER_TENSORS, LAYERS, LayerWeights, Resident, Scratch, TEXTS, Tokens, embed, encoder_layer,
    pool_and_normalise,
};
use crate::model::{self, ModelFiles};
use ddo_recorder::{Checkpoint, Component, Job, JobError, UnitId, View};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What moves from job to job.
#[derive(Default)]
struct Forward {
    hidden: Vec<f32>,
    scratch: Scratch,
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
    let batch = Arc::new(Tokens::load(&files.tokenizer)?.batch(&TEXTS)?);
    let want = Resident::load(&files.weights)?.encode(&batch)?.concat();
    let checkpoint = Checkpoint::open(&files.weights)?;
    let table = |path: &str| path.ends_with("_embeddings").then_some("Embedding");
    let component = Component::from_checkpoint("encoder", &checkpoint, table)?.without("pooler")?;
    let mut session = Session::open("encoder", component, args)?;
    let layers = (0..LAYERS).map(|i| session.unit(&format!("encoder.layer.{i}")).map(|unit| unit.id));
    let layers: Vec<UnitId> = layers.collect::<Result<_, _>>()?;
    let forward = Arc::new(Mutex::new(Forward::default()));
    for step in 0..args.steps {
        let hidden = first_hidden(&session, &batch)?;
        forward.lock().unwrap_or_else(PoisonError::into_inner).hidden = hidden;
        for &layer in &layers {
            submit_layer(&session, layer, &batch, &forward)?;
        }
        session.end_step(step)?;
        session.wait()?;
        let done = forward.lock().unwrap_or_else(PoisonError::into_inner);
        compare(step, "the batch's embeddings", &pool_and_normalise(&done.hidden, batch.seq, &batch.mask).concat(), &want)?;
    }
    session.close(format!("minilm, {} texts padded to {} tokens", batch.batch, batch.seq), args)
}

/// Looks the tokens up in the tables that stay on the host.
fn first_hidden(session: &Session, batch: &Batch) -> Result<Vec<f32>, RunError> {
    let tables = HOST_TENSORS.iter().map(|(name, _)| session.offload.host_tensor(name)).collect::<Result<Vec<_>, _>>()?;
    let slices = tables.iter().map(|table| table.as_slice::<f32>()).collect::<Result<Vec<_>, _>>()?;
    let got = slices.len();
    let slices = slices.try_into().map_err(|_| RunError::TensorCount { what: "embeddings".into(), got, expected: HOST_TENSORS.len() })?;
    Ok(embed(&EmbeddingWeights::in_order(slices), batch)?)
}

/// Pins a layer and submits its job; the pins come back when the job is complete.
fn submit_layer(session: &Session, layer: UnitId, batch: &Arc<Batch>, forward: &Arc<Mutex<Forward>>) -> Result<(), RunError> {
    let offload = &session.offload;
    let guard = offload.unit(layer)?;
    let views: Vec<View> = LAYER_TENSORS.iter().map(|(name, _)| guard.view(name)).collect::<Result<_, _>>()?;
    let (batch, forward) = (Arc::clone(batch), Arc::clone(forward));
    let job = Job::host(move |context| {
        let slices = views.iter().map(|view| context.slice::<f32>(view)).collect::<Result<Vec<_>, _>>()?;
        let slices = slices.try_into().map_err(|_| JobError::new("a layer has another number of tensors"))?;
        let mut forward = forward.lock().unwrap_or_else(PoisonError::into_inner);
        let Forward { hidden, scratch } = &mut *forward;
        encoder_layer(&LayerWeights::in_order(slices), hidden, batch.batch, batch.seq, &batch.mask, scratch)?;
        Ok(())
    });
    offload.launch(offload.compute_stream(), guard, job)?;
    Ok(())
}
