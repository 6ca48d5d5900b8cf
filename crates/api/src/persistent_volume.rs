//! A PersistentVolume of Kubernetes, which controllers watch, create and delete.

use k8s_openapi::api::core::v1::PersistentVolume as CoreVolume;
use serde::{Deserialize, Serialize};

use crate::cluster_kind::cluster_kind;

/// A PersistentVolume of Kubernetes, with the scope that this tree's controllers require.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersistentVolume(pub CoreVolume);

cluster_kind!(PersistentVolume, "PersistentVolume", "persistentvolumes", 0.metadata);
