//! Shows the timeline of a workflow.

use kube::Client;

use crate::args::workflow::TimelineArgs;
use crate::failure::Failure;
use crate::verbs::run::write_svg;
use crate::workflow::gather::gather;
use crate::workflow::timeline::{Timeline, gantt};
use cli::Exit;
use cli::Output;

pub(super) async fn run(
    client: &Client,
    args: &TimelineArgs,
    output: Output,
) -> Result<Exit, Failure> {
    let target = &args.workflow;
    let objects = gather(client, &target.namespace, &target.name).await?;
    let Some(timeline) = Timeline::from_objects(&objects) else {
        return Err(super::show::no_such_workflow(&target.namespace, &target.name));
    };
    if let Some(file) = &args.svg {
        write_svg(file, &timeline)?;
    }
    if output.is_json() {
        output.json(&timeline)?;
    } else {
        output.text(&format!("{}\n", gantt(&timeline, jiff::Timestamp::now())))?;
    }
    Ok(Exit::Done)
}
