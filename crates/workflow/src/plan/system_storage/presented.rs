//! Presents a system storage as a workflow with one `jobdw` directive, so that the makers of jobs' storage and mounts can
//! make its objects.

use std::sync::Arc;

use api::{
    NnfStorageProfile, NnfStorageProfileBody, Servers, ServersSpec, Workflow, WorkflowSpec,
    WorkflowState, number_or_text::NumberOrText,
};
use directive::{FileSystem, Jobdw};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use kube::ResourceExt;

use crate::{
    limits::Used,
    names::system_storage_metadata,
    objects::{
        system_storage::SystemStorageView,
        view::{DirectiveView, Group, Orphans, View},
    },
};

/// A system storage in the form of a workflow.
#[derive(Debug)]
pub(super) struct Presented<'a> {
    pub(super) view: View<'a>,
    pub(super) jobdw: Jobdw,
    metadata: ObjectMeta,
}

impl<'a> Presented<'a> {
    pub(super) fn new(storage: &SystemStorageView<'a>, now: Timestamp) -> Self {
        let (object, spec) = (&*storage.object, &storage.object.spec);
        let workflow = workflow(storage);
        let jobdw = Jobdw {
            file_system: spec.kind.as_str().parse().unwrap_or(FileSystem::Raw),
            capacity: u64::try_from(spec.capacity).unwrap_or_default(),
            name: object.name_any(),
            profile: None,
            requires: Vec::new(),
        };
        let metadata = system_storage_metadata(object, &workflow);
        let group = Group {
            servers: storage
                .storage
                .servers
                .as_ref()
                .map(|servers| with_labels(servers, &metadata)),
            profile: storage.profile.as_ref().map(|profile| with_path(profile, storage, &jobdw)),
            ..storage.storage.clone()
        };
        let view = View {
            site: storage.site,
            workflow: Arc::new(workflow),
            computes: None,
            directives: vec![DirectiveView { storage: group, ..DirectiveView::default() }],
            leftovers: Vec::new(),
            orphans: Orphans::default(),
            now,
            refused: storage.refused.clone(),
            used: Used::default(),
        };
        Self { view, jobdw, metadata }
    }

    /// Returns the objects of the storage. Its Servers has the labels that new objects on nodes get.
    pub(super) fn group(&self) -> &Group {
        &self.view.directives[0].storage
    }

    /// Returns the Servers of the storage, without allocations: the rabbits' space is reserved by a later change.
    pub(super) fn new_servers(&self) -> Servers {
        let metadata = self.metadata.clone();
        Servers { metadata, spec: ServersSpec::default(), status: None }
    }
}

/// Returns the workflow. It has the values that the command lines of the site's profiles know of a system storage.
fn workflow(storage: &SystemStorageView<'_>) -> Workflow {
    let object = &*storage.object;
    let metadata = ObjectMeta {
        name: Some(object.name_any()),
        namespace: object.namespace(),
        uid: Some(format!("systemstorage-{}", object.uid().unwrap_or_default())),
        ..ObjectMeta::default()
    };
    let spec = WorkflowSpec {
        desired_state: WorkflowState::PreRun,
        wlm_id: String::new(),
        job_id: NumberOrText::from("SystemStorage"),
        user_id: 0,
        group_id: 0,
        hurry: false,
        force_ready: false,
        directives: Vec::new(),
    };
    Workflow { metadata, spec, status: None }
}

/// Returns the Servers with the labels of the present spec.
fn with_labels(servers: &Servers, metadata: &ObjectMeta) -> Arc<Servers> {
    let mut labelled = servers.clone();
    labelled.labels_mut().extend(metadata.labels.clone().unwrap_or_default());
    Arc::new(labelled)
}

/// Returns the profile with the mount path of the storage.
fn with_path(
    profile: &NnfStorageProfile,
    storage: &SystemStorageView<'_>,
    jobdw: &Jobdw,
) -> Arc<NnfStorageProfile> {
    let mut data = profile.data().clone();
    let local = match jobdw.file_system {
        FileSystem::Xfs => &mut data.xfs_storage,
        FileSystem::Gfs2 => &mut data.gfs2_storage,
        FileSystem::Raw | FileSystem::Lustre => &mut data.raw_storage,
    };
    let path = storage.object.spec.client_mount_path.clone();
    local.variable_override.insert("$MOUNT_PATH".to_owned(), path);
    let spec = NnfStorageProfileBody { data: data.into() };
    Arc::new(NnfStorageProfile { metadata: profile.metadata.clone(), spec })
}
