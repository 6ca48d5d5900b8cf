//! Writes `.nnf-servers.json`, which lists the components of a Lustre file system, into the file system's root before
//! its user gets access.

use agent::{
    desired::{Goal, MountUnits},
    error::Failure,
};
use api::{ClientMount, RabbitLabels, Servers, client_mount::ClientMountInfo, names::label};
use controller::Retry;
use kube::{Api, ResourceExt};
use serde::Serialize;
use storage::desired::{FileSystemKind, RootFile};
use thiserror::Error;

use controller::patch::WriteError;

use crate::core::Context;

const NAME: &str = ".nnf-servers.json";

/// First words of the error when the file cannot be written: the sites' tools search errors for these words.
const PREFIX: &str = "unable to dump servers resource to file on clientmount path";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServersError {
    #[error(
        "metadata.labels: {} is {kind:?}: a Lustre mount with setPermissions must be owned by a NnfStorage or a Servers, with its name and namespace in the labels beside it",
        label::OWNER_KIND
    )]
    Owner { kind: String },
    #[error(
        "Servers {0} does not exist: it has the name and namespace of the NnfStorage that owns the mount"
    )]
    Missing(String),
    #[error(
        "Servers {place} belongs to workflow {found:?}, and the mount belongs to workflow {wanted:?}: one of the workflows was created again; delete the mount"
    )]
    Foreign { place: String, found: String, wanted: String },
    #[error(
        "Servers {place}: spec.allocationSets[{set}].label: {label:?} is not a Lustre target type: use ost, mdt, mgt or mgtmdt"
    )]
    Label { place: String, set: usize, label: String },
    #[error(
        "Servers {place}: spec.allocationSets[{set}].storage[{storage}].allocationCount: {count} is not a valid number of targets: use 1 to {MAX_TARGETS}"
    )]
    Count { place: String, set: usize, storage: usize, count: i64 },
}

impl From<&ServersError> for Failure {
    /// Makes the timer retry: the agent does not watch Servers objects.
    fn from(error: &ServersError) -> Self {
        let mut failure = Self::waiting(error.to_string());
        failure.severity = api::Severity::Major;
        failure.retry = Retry::Later;
        failure.debug = format!("{PREFIX}: {}", failure.debug);
        failure
    }
}

/// Maximum number of targets in one entry; no rabbit has drives for more.
const MAX_TARGETS: i64 = 4096;

/// Content of the file. Each list has the rabbit's name once for each target, in the order of the Servers object;
/// `nnfNode` has every rabbit once. The fields are declared in the order of the file.
#[derive(Debug, Default, Serialize)]
struct Components {
    mdt: Vec<String>,
    mgt: Vec<String>,
    mgtmdt: Vec<String>,
    #[serde(rename = "nnfNode")]
    nnf_node: Vec<String>,
    ost: Vec<String>,
}

/// Adds the file to every mount that needs it.
///
/// # Errors
/// An error if the API does not answer; an inner error if the answer is unusable.
pub(super) async fn add_file(
    context: &Context,
    object: &ClientMount,
    units: &mut MountUnits,
) -> Result<Result<(), ServersError>, WriteError> {
    let wanted = |info: &ClientMountInfo| {
        info.set_permissions && info.kind.as_str() == FileSystemKind::Lustre.as_str()
    };
    let mounts = units.goal == Goal::Mounted && !units.are_refused();
    if !mounts || !object.spec.mounts.iter().any(wanted) {
        return Ok(Ok(()));
    }
    let text = match read_text(context, object).await? {
        Ok(text) => text,
        Err(error) => return Ok(Err(error)),
    };
    for (info, mount) in object.spec.mounts.iter().zip(&mut units.mounts) {
        if let (true, Ok(mount)) = (wanted(info), mount) {
            let file = |owner| RootFile { name: NAME.to_owned(), text: text.clone(), owner };
            mount.file = mount.owner.map(file);
        }
    }
    Ok(Ok(()))
}

async fn read_text(
    context: &Context,
    object: &ClientMount,
) -> Result<Result<String, ServersError>, WriteError> {
    let (namespace, name) = match servers_name(object) {
        Ok(place) => place,
        Err(error) => return Ok(Err(error)),
    };
    let place = format!("{namespace}/{name}");
    let found = Api::<Servers>::namespaced(context.client.clone(), namespace).get_opt(name).await;
    let found = found.map_err(|source| WriteError::Look {
        object: format!("Servers {place}"),
        source: Box::new(source),
    })?;
    Ok(found.ok_or(ServersError::Missing(place)).and_then(|servers| file_text(object, &servers)))
}

/// Returns namespace and name of the Servers. With Warren's engine the owner of the ClientMount is the Servers itself;
/// with the Go controllers the owner is a NnfStorage of the same name and namespace.
fn servers_name(object: &ClientMount) -> Result<(&str, &str), ServersError> {
    let part = |key| object.label(key);
    let owner = (part(label::OWNER_NAMESPACE), part(label::OWNER_NAME), part(label::OWNER_KIND));
    match owner {
        (Some(namespace), Some(name), Some("NnfStorage" | "Servers")) => Ok((namespace, name)),
        (_, _, kind) => Err(ServersError::Owner { kind: kind.unwrap_or_default().to_owned() }),
    }
}

/// Returns the file's text: one JSON object on one line.
fn file_text(object: &ClientMount, servers: &Servers) -> Result<String, ServersError> {
    let place = || format!("{}/{}", servers.namespace().unwrap_or_default(), servers.name_any());
    let workflow = |uid: Option<&str>| uid.map(str::to_owned);
    let (found, wanted) =
        (workflow(servers.label(label::WORKFLOW_UID)), workflow(object.label(label::WORKFLOW_UID)));
    if let (Some(found), Some(wanted)) = (found, wanted)
        && found != wanted
    {
        return Err(ServersError::Foreign { place: place(), found, wanted });
    }
    let mut components = Components::default();
    for (index, set) in servers.spec.allocation_sets.iter().enumerate() {
        let Components { mdt, mgt, mgtmdt, nnf_node, ost } = &mut components;
        let part = match set.label.as_str() {
            "mdt" => mdt,
            "mgt" => mgt,
            "mgtmdt" => mgtmdt,
            "ost" => ost,
            label => {
                let label = label.to_owned();
                return Err(ServersError::Label { place: place(), set: index, label });
            }
        };
        for (storage, rabbit) in set.storage.iter().enumerate() {
            let count = rabbit.allocation_count;
            let times = usize::try_from(count).ok().filter(|_| (1..=MAX_TARGETS).contains(&count));
            let times = times.ok_or_else(|| ServersError::Count {
                place: place(),
                set: index,
                storage,
                count,
            })?;
            part.extend(std::iter::repeat_n(rabbit.name.clone(), times));
            if !nnf_node.contains(&rabbit.name) {
                nnf_node.push(rabbit.name.clone());
            }
        }
    }
    let text = serde_json::to_string(&components).expect("lists of text are JSON");
    Ok(format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::samples;

    fn servers(sets: &[(&str, &[(&str, i64)])]) -> Servers {
        let storage = |storage: &[(&str, i64)]| -> Value {
            let each = storage.iter();
            each.map(|(name, count)| json!({"name": name, "allocationCount": count})).collect()
        };
        let sets: Value = sets
            .iter()
            .map(|(label, on)| json!({"label": label, "allocationSize": 1, "storage": storage(on)}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "job-7-0", "namespace": "default"}, "spec": {"allocationSets": sets}
        }))
        .unwrap()
    }

    fn error_of(servers: &Servers) -> String {
        file_text(&samples::client_mount(1), servers).unwrap_err().to_string()
    }

    #[test]
    fn the_file_names_a_rabbit_once_for_each_target_and_once_in_nnf_node() {
        let servers = servers(&[
            ("ost", &[("rabbit-node-1", 2), ("rabbit-node-2", 1)]),
            ("ost", &[("rabbit-node-2", 1)]),
            ("mdt", &[("rabbit-node-3", 1), ("rabbit-node-4", 1), ("rabbit-node-8", 1)]),
            ("mgt", &[("rabbit-node-3", 1)]),
            ("mgtmdt", &[("rabbit-node-4", 1)]),
        ]);
        let text = file_text(&samples::client_mount(1), &servers).unwrap();
        let expected = concat!(
            r#"{"mdt":["rabbit-node-3","rabbit-node-4","rabbit-node-8"],"#,
            r#""mgt":["rabbit-node-3"],"mgtmdt":["rabbit-node-4"],"#,
            r#""nnfNode":["rabbit-node-1","rabbit-node-2","rabbit-node-3","rabbit-node-4","rabbit-node-8"],"#,
            r#""ost":["rabbit-node-1","rabbit-node-1","rabbit-node-2","rabbit-node-2"]}"#,
            "\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn the_error_for_invalid_servers_names_the_field() {
        let label = error_of(&servers(&[("ost", &[("rabbit-1", 1)]), ("xfs", &[])]));
        assert!(
            label.contains("default/job-7-0: spec.allocationSets[1].label: \"xfs\""),
            "{label}"
        );
        let count = error_of(&servers(&[("ost", &[("rabbit-1", 1), ("rabbit-2", 0)])]));
        assert!(count.contains("spec.allocationSets[0].storage[1].allocationCount: 0"), "{count}");
        let mut foreign = servers(&[]);
        foreign.labels_mut().insert(label::WORKFLOW_UID.into(), "another".into());
        let owner = error_of(&foreign);
        assert!(owner.contains("default/job-7-0 belongs to workflow \"another\""), "{owner}");
    }

    #[test]
    fn only_a_mount_owned_by_nnf_storage_or_servers_has_servers() {
        let mut mount = samples::client_mount(1);
        for (key, value) in [
            (label::OWNER_KIND, "NnfStorage"),
            (label::OWNER_NAMESPACE, "default"),
            (label::OWNER_NAME, "job-7-0"),
        ] {
            mount.labels_mut().insert(key.into(), value.into());
        }
        assert_eq!(servers_name(&mount), Ok(("default", "job-7-0")));
        mount.labels_mut().insert(label::OWNER_KIND.into(), "Servers".into());
        assert_eq!(servers_name(&mount), Ok(("default", "job-7-0")));
        mount.labels_mut().insert(label::OWNER_KIND.into(), "NnfAccess".into());
        let error = servers_name(&mount).unwrap_err().to_string();
        assert!(error.contains("owner.kind is \"NnfAccess\""), "{error}");
    }
}
