//! The verbs of `warren workflow`, one file each.

mod advance;
mod investigate;
mod purge;
mod show;
mod timeline;

use kube::Client;
use serde_json::json;

use crate::args::workflow::{Create, Teardown, WorkflowName, WorkflowVerb};
use crate::client::ServerArgs;
use crate::failure::Failure;
use crate::workflow::drive::Drive;
use crate::workflow::life::{Life, directives, proposal};
use cli::Exit;
use cli::Output;

pub(crate) async fn run(
    server: &ServerArgs,
    verb: &WorkflowVerb,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    match verb {
        WorkflowVerb::Create(args) => create(client, args, output).await,
        WorkflowVerb::Show(args) => show::run(&client, args, output).await,
        WorkflowVerb::Advance(args) => advance::run(client, args, output).await,
        WorkflowVerb::Teardown(args) => teardown(client, args, output).await,
        WorkflowVerb::Delete(args) => delete(client, args, output).await,
        WorkflowVerb::Timeline(args) => timeline::run(&client, args, output).await,
        WorkflowVerb::Investigate(args) => investigate::run(&client, args, output).await,
        WorkflowVerb::Purge(args) => purge::run(client, args, output).await,
    }
}

async fn create(client: Client, args: &Create, output: Output) -> Result<Exit, Failure> {
    let lines = directives(&args.directives)?;
    let life = Life::new(client, &args.owner, std::time::Duration::ZERO, output);
    let name = life.drive.name();
    let job = args.job.as_deref().unwrap_or(name);
    life.drive.create(&proposal(name, &args.owner, &args.wlm, job, lines)).await?;
    if output.is_json() {
        output.json(&json!({"workflow": name}))?;
    } else {
        output.line(name)?;
    }
    Ok(Exit::Done)
}

async fn teardown(client: Client, args: &Teardown, output: Output) -> Result<Exit, Failure> {
    let drive = drive(client, &args.workflow, output);
    let state = api::WorkflowState::Teardown;
    drive.request(&state, args.hurry).await?;
    let workflow = drive.reach(&state, args.workflow.timeout).await?;
    advance::print(&workflow, output)
}

async fn delete(client: Client, args: &WorkflowName, output: Output) -> Result<Exit, Failure> {
    let drive = drive(client, args, output);
    let workflow = drive.get().await?;
    if workflow.spec.desired_state != api::WorkflowState::Teardown {
        drive.request(&api::WorkflowState::Teardown, false).await?;
    }
    drive.reach(&api::WorkflowState::Teardown, args.timeout).await?;
    drive.delete(args.timeout).await?;
    if output.is_json() {
        output.json(&json!({"deleted": args.name}))?;
    } else {
        output.line(&format!("workflow/{} deleted", args.name))?;
    }
    Ok(Exit::Done)
}

fn drive(client: Client, args: &WorkflowName, output: Output) -> Drive {
    Drive::new(client, &args.namespace, &args.name, output)
}
