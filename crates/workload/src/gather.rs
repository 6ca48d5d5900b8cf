//! Gathers a workflow and all objects that carry its labels.

use api::names::label;
use api::{
    ClientMount, Computes, DirectiveBreakdown, NnfDataMovement, NnfNodeBlockStorage,
    NnfNodeStorage, NodeContainers, PersistentStorageInstance, RabbitLabels, Servers, Workflow,
};
use futures::future::try_join_all;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt};

use crate::Refused;

const PAGE: u32 = 500;

/// A workflow and its objects. Objects may remain after their workflow is gone.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub workflow: Option<Workflow>,
    pub others: Vec<Member>,
}

/// An object of a workflow.
#[derive(Clone, Debug)]
pub struct Member {
    /// Kind of the object, such as `ClientMount`.
    pub kind: String,
    pub object: DynamicObject,
}

/// Returns the kinds of objects that the engine creates for a Workflow.
#[must_use]
pub fn kinds() -> [ApiResource; 5] {
    [
        ApiResource::erase::<DirectiveBreakdown>(&()),
        ApiResource::erase::<Servers>(&()),
        ApiResource::erase::<ClientMount>(&()),
        ApiResource::erase::<NnfNodeBlockStorage>(&()),
        ApiResource::erase::<NnfNodeStorage>(&()),
    ]
}

/// Returns the kinds of which a user without rights may read their own objects.
#[must_use]
pub fn user_kinds() -> [ApiResource; 10] {
    let [breakdowns, servers, mounts, blocks, file_systems] = kinds();
    [
        ApiResource::erase::<Workflow>(&()),
        ApiResource::erase::<PersistentStorageInstance>(&()),
        ApiResource::erase::<Computes>(&()),
        breakdowns,
        servers,
        mounts,
        blocks,
        file_systems,
        ApiResource::erase::<NnfDataMovement>(&()),
        ApiResource::erase::<NodeContainers>(&()),
    ]
}

/// Lists a workflow's objects of these kinds. Fails if one list fails: the result would be incomplete.
///
/// # Errors
/// If the API does not answer.
pub async fn gather(
    client: &Client,
    kinds: &[ApiResource],
    namespace: &str,
    name: &str,
) -> Result<Objects, Refused> {
    let api: Api<Workflow> = Api::namespaced(client.clone(), namespace);
    let workflow = api
        .get_opt(name)
        .await
        .map_err(|error| Refused::new(format!("get the Workflow {namespace}/{name}"), error))?;
    let selector =
        format!("{}={name},{}={namespace}", label::WORKFLOW_NAME, label::WORKFLOW_NAMESPACE);
    let kinds = kinds.iter().filter(|kind| kind.kind != "Workflow");
    let lists = try_join_all(kinds.map(|kind| list(client, kind, &selector))).await?;
    let mut others: Vec<Member> = lists.into_iter().flatten().collect();
    // Computes carry no labels: a Computes has the workflow's name.
    others.extend(computes(client, namespace, name, &others).await?);
    Ok(Objects { workflow, others })
}

async fn list(client: &Client, kind: &ApiResource, selector: &str) -> Result<Vec<Member>, Refused> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut members = Vec::new();
    loop {
        let page = api
            .list(&params)
            .await
            .map_err(|error| Refused::new(format!("list {}", kind.plural), error))?;
        let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        members.extend(
            page.items.into_iter().map(|object| Member { kind: kind.kind.clone(), object }),
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
) -> Result<Option<Member>, Refused> {
    let kind = "Computes";
    if known.iter().any(|member| member.kind == kind) {
        return Ok(None);
    }
    let resource = ApiResource::erase::<Computes>(&());
    let found = Api::namespaced_with(client.clone(), namespace, &resource)
        .get_opt(name)
        .await
        .map_err(|error| Refused::new(format!("get the Computes {namespace}/{name}"), error))?;
    Ok(found.map(|object| Member { kind: kind.to_owned(), object }))
}

impl Objects {
    /// Returns whether neither the workflow nor any object exists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.workflow.is_none() && self.others.is_empty()
    }

    /// Returns the objects of one kind, parsed; skips objects that cannot be parsed.
    pub fn of_kind<K: kube::Resource + serde::de::DeserializeOwned>(
        &self,
        kind: &str,
    ) -> impl Iterator<Item = K> {
        let members = self.others.iter().filter(move |member| member.kind == kind);
        members.filter_map(|member| member.object.clone().try_parse::<K>().ok())
    }
}

impl Member {
    /// Returns `kind/name`, for messages.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.object.name_any())
    }

    /// Returns the index of the object's directive.
    #[must_use]
    pub fn directive(&self) -> Option<u32> {
        self.object.directive_index().and_then(|index| index.parse().ok())
    }

    /// Returns the node whose agent works on the object: the namespace of the object, if its kind
    /// is in nodes' namespaces.
    #[must_use]
    pub fn node(&self) -> Option<String> {
        let on_nodes = ["ClientMount", "NnfNodeStorage", "NnfNodeBlockStorage"];
        on_nodes.contains(&self.kind.as_str()).then(|| self.object.namespace()).flatten()
    }
}
