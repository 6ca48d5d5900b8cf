//! A PersistentVolume of Kubernetes, as controllers watch, create and delete it.

use k8s_openapi::api::core::v1::PersistentVolume as Whole;
use serde::{Deserialize, Serialize};

use crate::cluster_kind::cluster_kind;

/// A PersistentVolume of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersistentVolume(pub Whole);

cluster_kind!(PersistentVolume, "PersistentVolume", "persistentvolumes", 0.metadata);
