//! Implements `kube::Resource` for cluster-scoped kinds of Kubernetes.

/// Implements `kube::Resource` for a cluster-scoped core kind, with the namespaced scope that this tree's controllers
/// require. A list or watch over all namespaces uses the same path as one of a cluster-scoped kind; code that creates or
/// deletes such an object addresses it without a namespace.
macro_rules! cluster_kind {
    ($type:ty, $kind:literal, $plural:literal, $($metadata:tt).+) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                "".into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.$($metadata).+
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.$($metadata).+
            }
        }
    };
}

pub(crate) use cluster_kind;
