//! `ddo-analyze reconcile`: "Which host time lies in which, and what stays unexplained?"
//!
//! Uses every room through its public face. Invariant: what was chosen is named in the output.

use super::{load, print};
use crate::analysis::reconcile::{self, Choice, Reconciled, Unfit};
use crate::error::Error;
use crate::output::{self, files::Folder, reconcile as show, summary};
use crate::run::{Component, Run};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `reconcile`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A folder of a run, or one file of it.
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// Report or record to reconcile [default: final.json, else the last journal record, else the latest report].
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "to"])]
    report: Option<String>,
    /// Reconcile what was added since this step's record; `before` is the record before the first step.
    #[arg(long, value_name = "STEP", requires = "to")]
    from: Option<String>,
    /// Reconcile what was added up to this step's record.
    #[arg(long, value_name = "STEP", requires = "from")]
    to: Option<String>,
    /// Component [default: every one; with --json the leading one].
    #[arg(long, value_name = "NAME")]
    component: Option<String>,
    /// Print JSON alone.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown.
    #[arg(long)]
    markdown: bool,
    /// Also write reconciliation.json to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the analyzer's own files in a folder that is not empty.
    #[arg(long, requires = "out")]
    force: bool,
}

impl Arguments {
    fn choose<'a>(&self, component: &'a Component) -> Result<Choice<'a>, Unfit> {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => reconcile::between(component, from, to),
            _ => reconcile::choose(component, self.report.as_deref()),
        }
    }

    fn reconcile(&self, component: &Component) -> Result<Reconciled, Error> {
        Ok(reconcile::of(&component.name, &self.choose(component)?))
    }
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<u8, Error> {
    let run = load(&arguments.input)?;
    let leading = leading(arguments, &run)?;
    let first = arguments.reconcile(leading)?;
    if let Some(folder) = &arguments.out {
        let folder = Folder::open(&arguments.input, Some(folder), arguments.force)?;
        folder.write(output::RECONCILIATION_FILE, |file| show::write(&first.document, file))?;
    }
    if arguments.json {
        show::write(&first.document, out)?;
        return Ok(0);
    }
    let shown = |reconciled: &Reconciled| if arguments.markdown { show::markdown(reconciled) } else { show::text(reconciled) };
    print(out, &shown(&first))?;
    if arguments.component.is_none() {
        for component in run.components.iter().filter(|component| component.name != leading.name) {
            // A helper's reports have no scopes; only the leading component must.
            if let Ok(reconciled) = arguments.reconcile(component) {
                print(out, &format!("\n{}", shown(&reconciled)))?;
            }
        }
    }
    Ok(0)
}

fn leading<'a>(arguments: &Arguments, run: &'a Run) -> Result<&'a Component, Error> {
    if let Some(name) = &arguments.component {
        let found = run.components.iter().find(|component| component.name == *name);
        let have = || run.components.iter().map(|component| component.name.clone()).collect();
        return found.ok_or_else(|| Error::UnknownComponent { name: name.clone(), components: have() });
    }
    output::reconciled_component(run)
        .or_else(|| summary::leading_component(run))
        .ok_or_else(|| Error::UnknownComponent { name: "any".into(), components: Vec::new() })
}
