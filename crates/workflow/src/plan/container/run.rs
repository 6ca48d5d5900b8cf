//! Collects from a directive's objects the input for the creation of its containers.

use std::collections::BTreeMap;

use api::{
    NnfContainerProfileData, NodeContainers, ResourceError, names::label,
    node_containers::PackagePath,
};
use containers::{Attempt, Device, Rabbit, Run, StoragePath};
use directive::Container;
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;

use super::storages;
use crate::{
    change::Change,
    names::{add_directive_labels, directive_object_name, is_copy, owned_metadata, service_name},
    objects::view::View,
    plan::copies::CopyRun,
    progress::{internal_error, user_error, wlm_error},
};

/// The input from which a run's objects are created.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    workflow: String,
    /// Index of the directive.
    pub(super) index: usize,
    service: String,
    name: String,
    metadata: ObjectMeta,
    profile: &'a NnfContainerProfileData,
    /// The error of MPI containers at a site without an image of `podhelper`.
    no_podhelper: ResourceError,
    pub(super) placement: Vec<Rabbit>,
    storages: Vec<StoragePath>,
    packages: BTreeMap<String, Vec<PackagePath>>,
    devices: BTreeMap<String, Vec<Device>>,
    cluster_domain: String,
    ids: (i64, i64),
    /// The image of `podhelper`, if one is configured.
    image: Option<&'a str>,
    uid: String,
    on_kubernetes: bool,
}

impl<'a> Parts<'a> {
    /// Creates a Job where Kubernetes runs the containers, else a NodeContainers.
    pub(super) fn create(
        &self,
        job: impl FnOnce() -> Option<Job>,
        on_rabbit: impl FnOnce() -> Option<NodeContainers>,
    ) -> Option<Change> {
        if self.on_kubernetes {
            job().map(|job| Change::create(&job))
        } else {
            on_rabbit().map(|containers| Change::create(&containers))
        }
    }

    /// Collects the input for the containers of a `container` directive.
    pub(super) fn new(
        view: &'a View<'_>,
        index: usize,
        container: &Container,
    ) -> Result<Self, ResourceError> {
        let pinned = view.directives[index].containers.profile.as_deref();
        let profile =
            pinned.ok_or_else(|| internal_error("the pinned NnfContainerProfile of this workflow was deleted: tear the workflow down"))?.data();
        // Without Kubernetes the rabbits' agents find the devices themselves.
        let devices = if view.site.settings.has_pods() {
            storages::devices(view, container)
        } else {
            BTreeMap::new()
        };
        Ok(Self {
            no_podhelper: no_podhelper_error(&container.profile),
            placement: placement(view)?,
            storages: storages::paths(view, container, profile),
            packages: packages(view, index),
            devices,
            ..Self::with_profile(view, index, profile)?
        })
    }

    /// Collects the input for the containers of a copy by MPI.
    pub(super) fn of_copy(
        view: &'a View<'_>,
        index: usize,
        run: &'a CopyRun,
    ) -> Result<Self, ResourceError> {
        let rabbit = |name: &String| Rabbit { name: name.clone(), computes: Vec::new() };
        Ok(Self {
            placement: run.rabbits.iter().map(rabbit).collect(),
            storages: run.storages.clone(),
            ..Self::with_profile(view, index, &run.profile)?
        })
    }

    fn with_profile(
        view: &'a View<'_>,
        index: usize,
        profile: &'a NnfContainerProfileData,
    ) -> Result<Self, ResourceError> {
        let settings = view.site.settings.containers.as_ref();
        let settings = settings.ok_or_else(|| internal_error("containers are switched off now: start the coordinator with containers, or tear the workflow down"))?;
        let spec = &view.workflow.spec;
        Ok(Self {
            workflow: view.workflow.name_any(),
            index,
            service: service_name(&view.workflow, index),
            name: directive_object_name(&view.workflow, index),
            metadata: metadata(view, index),
            profile,
            no_podhelper: no_podhelper_for_copy(),
            placement: Vec::new(),
            storages: Vec::new(),
            packages: BTreeMap::new(),
            devices: BTreeMap::new(),
            cluster_domain: settings.cluster_domain.clone(),
            ids: (spec.user_id, spec.group_id),
            image: settings.podhelper_image.as_deref(),
            uid: view.workflow.uid().unwrap_or_default(),
            on_kubernetes: settings.namespace.is_some(),
        })
    }

    /// Returns true if Kubernetes runs the containers, false if the rabbits' agents do.
    pub(super) fn on_kubernetes(&self) -> bool {
        self.on_kubernetes
    }

    pub(super) fn service(&self) -> &str {
        &self.service
    }

    /// Returns the number of ports that the containers need on each rabbit.
    pub(super) fn ports(&self) -> usize {
        let data = self.profile;
        let containers = data.pod_with_ports().map_or(0, |spec| spec.containers.len());
        let own = usize::try_from(data.num_ports).unwrap_or(0).saturating_mul(containers);
        own.saturating_add(usize::from(self.has_network()))
    }

    /// Returns true if the rabbits create a network for the run. The network uses the last of the run's ports.
    fn has_network(&self) -> bool {
        !self.on_kubernetes && self.profile.mpi_spec.is_some()
    }

    /// Returns the attempt of this number. The name of its Secret has a part of the workflow's uid, so that a later
    /// workflow of the same name gets other keys.
    ///
    /// # Errors
    /// When no `podhelper` image is configured any more.
    pub(super) fn attempt(&self, number: u32) -> Result<Attempt, ResourceError> {
        let image = self.image.filter(|_| self.on_kubernetes).map(str::to_owned);
        if self.on_kubernetes && image.is_none() {
            return Err(self.no_podhelper.clone());
        }
        let name = format!("{}-a{number}", self.name);
        let uid_start = self.uid.split('-').next().unwrap_or_default();
        Ok(Attempt { number, keys: format!("{name}-{uid_start}"), name, image })
    }

    pub(super) fn run<'b>(&'b self, ports: &'b [u16], attempt: Option<&'b Attempt>) -> Run<'b> {
        let (network, own) = match ports.split_last() {
            Some((last, own)) if self.has_network() => (Some(*last), own),
            _ => (None, ports),
        };
        let mut metadata = self.metadata.clone();
        let number = attempt.map(|attempt| (label::ATTEMPT.to_owned(), attempt.number.to_string()));
        metadata.labels.get_or_insert_default().extend(number);
        Run {
            workflow: &self.workflow,
            service: &self.service,
            name: attempt.map_or(&self.name, |attempt| &attempt.name),
            metadata,
            user: self.ids.0,
            group: self.ids.1,
            profile: self.profile,
            storages: &self.storages,
            packages: &self.packages,
            devices: &self.devices,
            placement: &self.placement,
            ports: own,
            network_port: network,
            attempt,
            cluster_domain: &self.cluster_domain,
        }
    }
}

/// Returns the paths of the job packages, by rabbit.
fn packages(view: &View<'_>, index: usize) -> BTreeMap<String, Vec<PackagePath>> {
    let all = view.directives[index].containers.packages.iter();
    all.map(|((rabbit, _), object)| {
        let status = object.status.clone().unwrap_or_default();
        (rabbit.clone(), status.packages)
    })
    .collect()
}

/// Returns the error for MPI containers at a site without a `podhelper` image.
pub(super) fn no_podhelper_error(profile: &str) -> ResourceError {
    user_error(format!(
        "argument profile={profile}: data.mpiSpec needs podhelper, which is not configured here; name a profile with data.spec, or ask the administrator to start the coordinator with --podhelper-image"
    ))
}

/// Returns the error for copies by MPI at a site without a `podhelper` image.
pub(super) fn no_podhelper_for_copy() -> ResourceError {
    user_error(
        "data.image of the NnfDataMovementProfile needs podhelper, which is not configured here; name a profile without data.image, or ask the administrator to start the coordinator with --podhelper-image",
    )
}

fn metadata(view: &View<'_>, index: usize) -> ObjectMeta {
    let name = directive_object_name(&view.workflow, index);
    let metadata = ObjectMeta { name: None, ..owned_metadata(&view.workflow, &name) };
    let mut metadata = add_directive_labels(metadata, &view.workflow, index);
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(label::CONTAINER.to_owned(), service_name(&view.workflow, index));
    if !is_copy(&view.workflow, index) {
        labels.insert(label::PINNED_CONTAINER_PROFILE_NAME.to_owned(), name);
        labels.insert(label::PINNED_CONTAINER_PROFILE_NAMESPACE.to_owned(), view.namespace());
    }
    metadata
}

/// Returns the rabbits of the job's computes by name, each with its computes in the job's order.
fn placement(view: &View<'_>) -> Result<Vec<Rabbit>, ResourceError> {
    let mut by_rabbit: BTreeMap<&str, Vec<(usize, String)>> = BTreeMap::new();
    for (global, compute) in view.computes().enumerate() {
        let rabbit = view.site.rabbit_of.get(compute).ok_or_else(|| {
            wlm_error(format!(
                "Computes names {compute}, which no rabbit serves: containers run on rabbits, so name computes that SystemConfiguration default/default lists under one"
            ))
        })?;
        by_rabbit.entry(rabbit).or_default().push((global, compute.to_owned()));
    }
    if by_rabbit.is_empty() {
        return Err(wlm_error(
            "Computes names no compute: containers run on the rabbits of the job's computes, so fill Computes",
        ));
    }
    let rabbit = |(name, computes): (&str, _)| Rabbit { name: name.to_owned(), computes };
    Ok(by_rabbit.into_iter().map(rabbit).collect())
}
