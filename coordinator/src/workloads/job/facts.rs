//! Reads the objects of a job, of its nodes and of the system, and builds the answer from them.

use std::sync::Arc;

use api::names::{STORAGE_NAMESPACE, SYSTEM_CONFIGURATION};
use api::{Storage, SystemStatus, Workflow};
use apiclient::list_readable;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use proto::v1::{Role, Workload};
use tonic::Status;
use workload::{Objects, Refused, gather, kinds};

use super::{Job, refusal_status};
use crate::workloads::answer::{self, Ending};
use crate::workloads::conditions::{Facts, conditions};
use crate::workloads::lose::after_losing;
use crate::workloads::request::NAMESPACE;
use crate::workloads::tolerance::Tolerance;

impl Job {
    /// Builds the answer of a call, with the conditions of the job's nodes.
    ///
    /// # Errors
    /// If the API does not answer: the answer needs the objects of all nodes.
    pub(in crate::workloads) async fn answer(
        &self,
        workflow: &Workflow,
        ending: &Ending,
    ) -> Result<Workload, Status> {
        let objects = self.objects(workflow).await?;
        let facts = self.facts().await?;
        let nodes = conditions(&objects, &facts);
        let now = Timestamp::now();
        let mut reply = answer::workload(&self.id, workflow, now);
        if !matches!(ending, Ending::Done) {
            reply.waits_for =
                workload::waits::waits(&objects).iter().map(|wait| wait.line(now)).collect();
        }
        let tolerance = Tolerance::read(workflow);
        if tolerance.nodes > 0
            && matches!(ending, Ending::Late(_) | Ending::Failed(_))
            && let Err(why) = after_losing(&tolerance, workflow, &objects, &facts)
        {
            reply
                .waits_for
                .push(format!("the job cannot continue without the failed computes: {why}"));
        }
        reply.nodes = nodes;
        Ok(answer::with_verdict(reply, workflow, ending))
    }

    /// Reads all objects of the job's Workflow.
    pub(in crate::workloads) async fn objects(
        &self,
        workflow: &Workflow,
    ) -> Result<Objects, Status> {
        let gathered = gather(&self.client, &kinds(), NAMESPACE, self.flow.name()).await;
        let mut objects = gathered.map_err(|error| refusal_status(&error))?;
        objects.workflow = Some(workflow.clone());
        Ok(objects)
    }

    /// Reads the nodes' connections and rabbits, the rabbits' Storages, and the workload manager's SystemStatus.
    pub(in crate::workloads) async fn facts(&self) -> Result<Facts, Status> {
        let mut facts = Facts::default();
        for record in self.hub.nodes().nodes {
            if record.role() == Role::Rabbit {
                facts.rabbits.insert(record.node.clone());
            }
            if record.connected {
                facts.connected.insert(record.node.clone());
            } else if !record.certificate.is_empty() {
                facts.shut_out.insert(record.node.clone(), record.certificate.clone());
            }
            if !record.rabbit.is_empty() && record.rabbit != record.node {
                facts.site.rabbit_of.insert(record.node, record.rabbit);
            }
        }
        let storages = self.list::<Storage>("Storages").await?;
        facts.site.storages =
            storages.into_iter().map(|storage| (storage.name_any(), Arc::new(storage))).collect();
        let mut status = self.list::<SystemStatus>("SystemStatuses").await?;
        status.retain(|status| status.name_any() == SYSTEM_CONFIGURATION);
        facts.site.status = status.pop().map(Arc::new);
        Ok(facts)
    }

    async fn list<K>(&self, what: &str) -> Result<Vec<K>, Status>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let (client, params) = (self.client.clone(), ListParams::default());
        let listed = list_readable(client, Some(STORAGE_NAMESPACE), &params).await;
        let listed = listed.map_err(|source| {
            refusal_status(&Refused { what: format!("list the {what}"), source })
        })?;
        listed.unreadable.iter().for_each(|text| log::warn!("{text}"));
        Ok(listed.items)
    }
}
