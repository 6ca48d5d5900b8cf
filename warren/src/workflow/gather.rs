//! Everything of one workflow: itself, and whatever object of whatever kind carries its labels.

use api::names::{DWS_GROUP, NNF_GROUP, label};
use api::{RabbitLabels, Workflow};
use futures::future::try_join_all;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};

use crate::failure::{self, Failure};
use crate::kinds::{Kind, Kinds};

const PAGE: u32 = 500;

/// A workflow and its objects. An object is there although its workflow is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub workflow: Option<Workflow>,
    pub others: Vec<Member>,
}

/// One object of a workflow.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Such as `ClientMount`.
    pub kind: String,
    pub object: DynamicObject,
}

/// Lists them all; a list that fails fails all of it, because nothing can be said of what was not seen.
///
/// # Errors
/// When the API does not answer.
pub(crate) async fn gather(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Objects, Failure> {
    let kinds = Kinds::discover(client).await?;
    let api: Api<Workflow> = Api::namespaced(client.clone(), namespace);
    let workflow = api
        .get_opt(name)
        .await
        .map_err(|error| failure::api(format!("get the Workflow {namespace}/{name}"), &error))?;
    let selector =
        format!("{}={name},{}={namespace}", label::WORKFLOW_NAME, label::WORKFLOW_NAMESPACE);
    let kinds =
        kinds.of_groups(&[DWS_GROUP, NNF_GROUP]).filter(|kind| kind.resource.kind != "Workflow");
    let lists = try_join_all(kinds.map(|kind| list(client, kind, &selector))).await?;
    let mut others: Vec<Member> = lists.into_iter().flatten().collect();
    // Computes carry no labels: they have the workflow's name.
    others.extend(computes(client, namespace, name, &others).await?);
    Ok(Objects { workflow, others })
}

async fn list(client: &Client, kind: &Kind, selector: &str) -> Result<Vec<Member>, Failure> {
    let api = kind.api_in(client, None);
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut members = Vec::new();
    loop {
        let page = api
            .list(&params)
            .await
            .map_err(|error| failure::api(format!("list {}", kind.resource.plural), &error))?;
        let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        members.extend(
            page.items
                .into_iter()
                .map(|object| Member { kind: kind.resource.kind.clone(), object }),
        );
        match next {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(members),
        }
    }
}

async fn computes(
    client: &Client,
    namespace: &str,
    name: &str,
    known: &[Member],
) -> Result<Option<Member>, Failure> {
    let kind = "Computes";
    if known.iter().any(|member| member.kind == kind) {
        return Ok(None);
    }
    let resource = kube::api::ApiResource::erase::<api::Computes>(&());
    let found = Api::namespaced_with(client.clone(), namespace, &resource)
        .get_opt(name)
        .await
        .map_err(|error| failure::api(format!("get the Computes {namespace}/{name}"), &error))?;
    Ok(found.map(|object| Member { kind: kind.to_owned(), object }))
}

impl Objects {
    /// Nothing of it is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.workflow.is_none() && self.others.is_empty()
    }

    /// Those of one kind, as its type; one that does not read as such is left out.
    pub(crate) fn of<K: kube::Resource + serde::de::DeserializeOwned>(
        &self,
        kind: &str,
    ) -> impl Iterator<Item = K> {
        let members = self.others.iter().filter(move |member| member.kind == kind);
        members.filter_map(|member| member.object.clone().try_parse::<K>().ok())
    }
}

impl Member {
    /// `kind/name`, with the namespace where it is not the workflow's.
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.object.name_any())
    }

    /// Which directive it is of.
    pub(crate) fn directive(&self) -> Option<u32> {
        self.object.directive_index().and_then(|index| index.parse().ok())
    }

    /// The node it is worked on at: the namespaces of these kinds are nodes.
    pub(crate) fn node(&self) -> Option<String> {
        let on_nodes = ["ClientMount", "NnfNodeStorage", "NnfNodeBlockStorage"];
        on_nodes.contains(&self.kind.as_str()).then(|| self.object.namespace()).flatten()
    }
}
