//! Removes a stuck workflow: shows the plan, and with `--yes` carries it out. Plans again after each step.

use api::WorkflowState;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::args::workflow::Purge;
use crate::failure::{self, Failure};
use crate::kinds::Kinds;
use crate::workflow::drive::Drive;
use crate::workflow::gather::gather;
use crate::workflow::purge::{Step, plan};
use cli::Exit;
use cli::Output;

pub(super) async fn run(client: Client, args: &Purge, output: Output) -> Result<Exit, Failure> {
    let target = &args.workflow;
    let objects = gather(&client, &target.namespace, &target.name).await?;
    let steps = plan(&objects, args.force);
    if !args.yes {
        return show(&steps, objects.is_empty(), output);
    }
    let purger = Purger {
        drive: Drive::new(client.clone(), &target.namespace, &target.name, output),
        client,
        args,
    };
    let mut taken: Vec<Step> = Vec::new();
    loop {
        let objects = gather(&purger.client, &target.namespace, &target.name).await?;
        // Skips a step that was taken already: it is still in the plan because it had no effect.
        let next = plan(&objects, args.force).into_iter().find(|step| !taken.contains(step));
        let Some(step) = next else { break };
        output.note(&step.to_string());
        purger.take(&step, output).await?;
        taken.push(step);
    }
    report_remaining(&purger, &taken, output).await
}

fn show(steps: &[Step], is_gone: bool, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(&steps)?;
    } else if is_gone {
        output.line("the workflow and all its objects are gone")?;
    } else if steps.is_empty() {
        output.line("all objects of the workflow are being deleted; --force removes finalizers")?;
    } else {
        for (index, step) in steps.iter().enumerate() {
            output.line(&format!("{}. {step}", index + 1))?;
        }
        output.note("this is only the plan; --yes carries it out");
    }
    Ok(Exit::Done)
}

struct Purger<'a> {
    client: Client,
    drive: Drive,
    args: &'a Purge,
}

impl Purger<'_> {
    async fn take(&self, step: &Step, output: Output) -> Result<(), Failure> {
        let patience = self.args.workflow.timeout;
        let taken = match step {
            Step::TearDown { .. } => match self.drive.request(&WorkflowState::Teardown, true).await
            {
                Ok(()) => self.drive.reach(&WorkflowState::Teardown, patience).await.map(drop),
                Err(failure) => Err(failure),
            },
            Step::DeleteWorkflow { .. } if self.args.force => {
                self.delete("workflow", &self.args.workflow.name, &self.args.workflow.namespace)
                    .await
            }
            Step::DeleteWorkflow { .. } => self.drive.delete(patience).await,
            Step::Delete { object, namespace } => {
                let (kind, name) = object.split_once('/').unwrap_or_default();
                self.delete(kind, name, namespace).await
            }
            Step::Release { object, namespace, .. } => {
                self.remove_finalizers(object, namespace).await
            }
        };
        match taken {
            // With --force the next steps follow also after a failure.
            Err(failure) if self.args.force => {
                output.note(&format!("{}; continuing", failure.text()));
                Ok(())
            }
            taken => taken,
        }
    }

    async fn delete(&self, kind: &str, name: &str, namespace: &str) -> Result<(), Failure> {
        let kinds = Kinds::discover(&self.client).await?;
        let api = kinds.find_by_name(kind)?.api(&self.client, namespace);
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer
                .map(drop)
                .map_err(|error| failure::api(format!("delete {kind}/{name}"), &error)),
        }
    }

    async fn remove_finalizers(&self, object: &str, namespace: &str) -> Result<(), Failure> {
        let (kind, name) = object.split_once('/').unwrap_or_default();
        let kinds = Kinds::discover(&self.client).await?;
        let api = kinds.find_by_name(kind)?.api(&self.client, namespace);
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        match api.patch_metadata(name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(drop).map_err(|error| {
                failure::api(format!("remove the finalizers of {object}"), &error)
            }),
        }
    }
}

/// Reports the objects that remain after all steps.
async fn report_remaining(
    purger: &Purger<'_>,
    taken: &[Step],
    output: Output,
) -> Result<Exit, Failure> {
    let target = &purger.args.workflow;
    let objects = gather(&purger.client, &target.namespace, &target.name).await?;
    let remaining: Vec<String> = objects.others.iter().map(workload::Member::label).collect();
    if output.is_json() {
        output.json(
            &json!({"steps": taken, "left": remaining, "workflowIsGone": objects.workflow.is_none()}),
        )?;
    }
    if objects.is_empty() {
        if !output.is_json() {
            output.line("the workflow and all its objects are gone")?;
        }
        return Ok(Exit::Done);
    }
    let what = format!("these objects remain: {}", remaining.join(", "));
    Err(Failure::new(Exit::Retryable, what)
        .remedy("`warren workflow investigate` shows which finalizers hold them; --force removes finalizers"))
}
