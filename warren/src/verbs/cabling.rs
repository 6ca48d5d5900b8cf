//! Shows computes whose cables are plugged into wrong ports of a rabbit.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    NnfNodeBlockStorage, SystemConfiguration,
    names::{STORAGE_LABEL_RABBIT, STORAGE_NAMESPACE, SYSTEM_CONFIGURATION},
};
use apiclient::list_readable;
use cli::{Exit, Output};
use kube::{Api, Client, api::ListParams};
use proto::v1::{ListReachedRequest, NodeReached, cluster_client::ClusterClient};
use serde_json::{Value, json};

use crate::{
    cabling::{Expected, Port, Seen, Verdict, compare},
    client::{CoordinatorArgs, ServerArgs},
    failure::{self, Failure},
};

/// Computes with what they have to reach.
type Computes = BTreeMap<String, Expected>;

pub(crate) async fn run(
    server: &ServerArgs,
    coordinator: &CoordinatorArgs,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let mut expected = computes(&client).await?;
    attach(&client, &mut expected, output).await?;
    let request = ListReachedRequest { nodes: expected.keys().cloned().collect() };
    let answer = ClusterClient::new(coordinator.channel().await?)
        .max_decoding_message_size(usize::MAX)
        .list_reached(request)
        .await
        .map_err(|status| Failure::grpc("ask the computes which namespaces they reach", &status))?;
    let seen = answer.into_inner().nodes.into_iter().map(to_seen).collect();
    let verdicts = compare(&expected, &seen);
    if output.is_json() {
        let lines: Vec<Value> =
            verdicts.iter().map(|verdict| to_json(&expected, verdict)).collect();
        output.json(&lines)?;
    } else {
        texts(&expected, &verdicts).iter().try_for_each(|line| output.line(line))?;
    }
    Ok(exit(&verdicts))
}

/// Returns the computes of the SystemConfiguration, without namespaces.
async fn computes(client: &Client) -> Result<Computes, Failure> {
    let api: Api<SystemConfiguration> = Api::namespaced(client.clone(), STORAGE_NAMESPACE);
    let failed = |error| failure::api("read SystemConfiguration default/default", &error);
    let system = api.get(SYSTEM_CONFIGURATION).await.map_err(failed)?;
    let nodes = system.spec.storage_nodes.iter();
    let rabbits = nodes.filter(|node| node.kind == STORAGE_LABEL_RABBIT);
    let computes = rabbits.flat_map(|rabbit| {
        rabbit.computes_access.iter().map(|compute| {
            let port = Port { rabbit: rabbit.name.clone(), index: compute.index };
            (compute.name.clone(), Expected { port, namespaces: BTreeSet::new() })
        })
    });
    Ok(computes.collect())
}

/// Adds the namespaces that rabbits have attached to computes.
async fn attach(client: &Client, computes: &mut Computes, output: Output) -> Result<(), Failure> {
    let failed = |error| failure::api("list NnfNodeBlockStorages", &error);
    let listed =
        list_readable::<NnfNodeBlockStorage>(client.clone(), None, &ListParams::default()).await;
    let listed = listed.map_err(failed)?;
    listed.unreadable.iter().for_each(|text| output.note(text));
    let status = listed.items.iter().filter_map(|block| block.status.as_ref());
    for allocation in status.flat_map(|status| &status.allocations) {
        for compute in allocation.accesses.keys() {
            let Some(expected) = computes.get_mut(compute) else { continue };
            let devices = allocation.devices.iter();
            expected.namespaces.extend(devices.filter_map(|device| {
                Some((device.nqn.clone(), device.namespace_id.parse().ok()?))
            }));
        }
    }
    Ok(())
}

fn to_seen(node: NodeReached) -> (String, Seen) {
    let seen = match node.reached {
        Some(reached) => {
            let namespaces = reached.namespaces.into_iter();
            Seen::Namespaces(namespaces.map(|namespace| (namespace.nqn, namespace.id)).collect())
        }
        None => Seen::Unknown(node.failure),
    };
    (node.node, seen)
}

/// Returns a line for each wrong cable and each unknown compute, then the number of computes with each result.
fn texts(computes: &Computes, verdicts: &BTreeMap<String, Verdict>) -> Vec<String> {
    let mut lines: Vec<String> =
        verdicts.iter().filter_map(|(name, verdict)| text(computes, name, verdict)).collect();
    let count = |accepts: fn(&Verdict) -> bool| {
        verdicts.values().filter(|verdict| accepts(verdict)).count()
    };
    let right = count(|verdict| matches!(verdict, Verdict::Right));
    let alike = count(|verdict| matches!(verdict, Verdict::Alike { .. }));
    let untested = count(|verdict| matches!(verdict, Verdict::Untested));
    let unknown = count(|verdict| matches!(verdict, Verdict::Unknown { .. }));
    let wrong = count(Verdict::is_wrong);
    lines.push(format!("{wrong} wrong, {right} right, {unknown} not known"));
    if alike > 0 {
        lines.push(format!(
            "{alike} see what they should, but others should see the same: a swap of two of these does not show"
        ));
    }
    if untested > 0 {
        lines.push(format!("{untested} have no storage attached: nothing can be said of them"));
    }
    if alike + untested > 0 {
        lines.push(
            "for a full check, create an NnfSystemStorage with shared: false, and repeat this command".to_owned(),
        );
    }
    lines
}

/// Returns the line for a compute; `None` if nothing is wrong or the line of another compute says it.
fn text(computes: &Computes, name: &str, verdict: &Verdict) -> Option<String> {
    let port = |name: &str| computes.get(name).map(|compute| compute.port.to_string());
    let own = port(name).unwrap_or_default();
    let list = |names: &[String]| {
        let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
        directive::hostlist::compress(&hosts)
    };
    Some(match verdict {
        Verdict::Right | Verdict::Alike { .. } | Verdict::Untested => return None,
        Verdict::Swapped { with } if with.as_str() < name => return None,
        Verdict::Swapped { with } => format!(
            "{name} sees the storage of {with}, and {with} that of {name}: the cables of {own} and {} are swapped",
            port(with).unwrap_or_default()
        ),
        Verdict::SeesOthers { others } => format!(
            "{name} sees the storage of {}, and not its own: another compute's cable is plugged into {name}, which belongs to {own}",
            list(others)
        ),
        Verdict::Misses { missing, expected } if missing == expected => format!(
            "{name} sees none of its {expected} namespaces: check the cable of {own}, and run nvme list on {name}"
        ),
        Verdict::Misses { missing, expected } => format!(
            "{name} lacks {missing} of its {expected} namespaces: run nvme list on {name}, and check the drives and links of {own}"
        ),
        Verdict::Mixed { missing, others } => format!(
            "{name} sees namespaces of {}, and lacks {missing} of its own: check the cables of {own}",
            list(others)
        ),
        Verdict::Unknown { why } => format!("{name} is not known: {why}"),
    })
}

fn to_json(computes: &Computes, (name, verdict): (&String, &Verdict)) -> Value {
    let mut line = json!(verdict);
    line["compute"] = json!(name);
    let port = computes.get(name).map(|compute| &compute.port);
    line["port"] = json!(port);
    line
}

/// Returns Done only if every compute is known to be plugged in right.
fn exit(verdicts: &BTreeMap<String, Verdict>) -> Exit {
    let has = |accepts: fn(&Verdict) -> bool| verdicts.values().any(accepts);
    if has(Verdict::is_wrong) {
        Exit::NodeFault
    } else if has(|verdict| matches!(verdict, Verdict::Unknown { .. })) {
        Exit::Unreachable
    } else if has(|verdict| matches!(verdict, Verdict::Alike { .. } | Verdict::Untested)) {
        Exit::Retryable
    } else {
        Exit::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_has_a_line_that_names_the_compute_and_the_port() {
        let port = |index| Port { rabbit: "r".to_owned(), index };
        let computes: Computes = (3..6)
            .map(|index| {
                let expected = Expected { port: port(index), namespaces: BTreeSet::new() };
                (format!("c{index}"), expected)
            })
            .collect();
        let swapped = |with: &str| Verdict::Swapped { with: with.to_owned() };
        let unknown = Verdict::Unknown { why: "not connected".to_owned() };
        let verdicts = [("c3", swapped("c4")), ("c4", swapped("c3")), ("c5", unknown)];
        let verdicts = verdicts.map(|(name, verdict)| (name.to_owned(), verdict)).into();
        assert_eq!(
            texts(&computes, &verdicts),
            [
                "c3 sees the storage of c4, and c4 that of c3: the cables of port 3 of r and port 4 of r are swapped",
                "c5 is not known: not connected",
                "2 wrong, 0 right, 1 not known",
            ]
        );
        let texts = texts(&computes, &BTreeMap::from([("c3".to_owned(), Verdict::Untested)]));
        assert_eq!(texts[0], "0 wrong, 0 right, 0 not known");
        assert!(texts[1].starts_with("1 have no storage attached"), "{texts:?}");
    }

    #[test]
    fn the_exit_status_is_0_only_if_all_is_known_and_right() {
        let exit_of = |verdicts: &[Verdict]| {
            let names = verdicts.iter().enumerate();
            exit(&names.map(|(at, verdict)| (at.to_string(), verdict.clone())).collect())
        };
        let unknown = Verdict::Unknown { why: String::new() };
        let missing = Verdict::Misses { missing: 1, expected: 1 };
        assert!(matches!(exit_of(&[Verdict::Right]), Exit::Done));
        assert!(matches!(exit_of(&[Verdict::Right, Verdict::Untested]), Exit::Retryable));
        assert!(matches!(exit_of(&[Verdict::Untested, unknown.clone()]), Exit::Unreachable));
        assert!(matches!(exit_of(&[unknown, missing]), Exit::NodeFault));
    }
}
