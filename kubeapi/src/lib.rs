//! An embedded, durable Kubernetes API: a tower Service over a local store.
