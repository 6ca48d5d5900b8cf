use super::Target;
use crate::form::Page;
use crate::object::{Key, Stored};
use crate::registry::Resource;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Cause, Status};
use crate::store::State;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which objects a list or watch is about, within its target.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.labels.matches(stored) && self.fields.matches(stored)
    }
}

/// `metav1.ListOptions` of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListOptions {
    pub(crate) selection: Selection,
    pub(crate) limit: Option<usize>,
    pub(crate) token: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) revision_match: Option<String>,
}

/// Where the next page starts, and at which revision all pages are.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    rv: u64,
    ns: String,
    name: String,
}

/// Lists objects; the pages of one list show the same moment.
///
/// # Errors
/// 400 for options that make no sense, 410 when that moment has left the log.
pub(crate) fn list(state: &State, target: &Target, options: &ListOptions) -> Result<Page, Status> {
    let resource = target.resolve(&state.registry)?;
    check_match(options)?;
    options.selection.fields.check(&resource)?;
    let id = Arc::clone(&resource.definition.id);
    let token = options.token.as_deref().map(Token::read).transpose()?;
    let revision = match &token {
        Some(_) if options.revision.as_deref().is_some_and(|text| !matches!(text, "" | "0")) => {
            return Err(Status::bad_request("resourceVersion cannot be combined with continue"));
        }
        // A server that was restored from an older copy has given out tokens for moments that it does not know.
        Some(token) if token.rv > state.revision => return Err(too_old(options)),
        Some(token) => token.rv,
        None => wanted_revision(state, options)?,
    };
    let start =
        token.map(|token| Key { resource: Arc::clone(&id), namespace: token.ns, name: token.name });
    let namespace = target.namespace.as_deref();
    if revision == state.revision {
        let objects = state.range(&id, namespace, start.as_ref());
        return Ok(page(resource, revision, objects, options));
    }
    let old = state.snapshot(&id, namespace, revision).map_err(|_| too_old(options))?;
    let objects = old.iter().filter(|(key, _)| start.as_ref().is_none_or(|start| *key >= start));
    Ok(page(resource, revision, objects, options))
}

/// The refusal of options that do not go together (apimachinery `ValidateListOptions`).
pub(crate) fn invalid_options(causes: &[Cause]) -> Status {
    Status::invalid("meta.k8s.io", "ListOptions", "", causes)
}

/// # Errors
/// 422 for a `resourceVersionMatch` that does not go with the other options.
fn check_match(options: &ListOptions) -> Result<(), Status> {
    let Some(wanted) = options.revision_match.as_deref() else { return Ok(()) };
    let revision = options.revision.as_deref().unwrap_or_default();
    let why = if !matches!(wanted, "Exact" | "NotOlderThan") {
        "must be Exact or NotOlderThan"
    } else if options.token.is_some() {
        "is forbidden with continue"
    } else if revision.is_empty() || wanted == "Exact" && revision == "0" {
        "needs a resourceVersion, and Exact one that is not 0"
    } else {
        return Ok(());
    };
    Err(invalid_options(&[Cause::forbidden("resourceVersionMatch", why)]))
}

fn wanted_revision(state: &State, options: &ListOptions) -> Result<u64, Status> {
    let asked = options.revision.as_deref().map_or(Ok(0), parse_revision)?;
    if asked > state.revision {
        return Err(Status::revision_too_large(asked, state.revision));
    }
    let exact = match options.revision_match.as_deref() {
        // Without resourceVersionMatch a limit with a revision means exactly that revision.
        None => options.limit.is_some_and(|limit| limit > 0),
        Some(wanted) => wanted == "Exact",
    };
    Ok(if exact && asked > 0 { asked } else { state.revision })
}

/// # Errors
/// 400 when the text is no revision of this server.
fn parse_revision(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| Status::bad_request(format!("{text:?} is no resourceVersion")))
}

fn too_old(options: &ListOptions) -> Status {
    Status::expired(if options.token.is_some() {
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter."
    } else {
        "The resourceVersion for the provided list is too old."
    })
}

fn page<'a>(
    resource: Resource,
    revision: u64,
    objects: impl Iterator<Item = (&'a Key, &'a Arc<Stored>)>,
    options: &ListOptions,
) -> Page {
    // With resourceVersion 0 the client takes any state, and kube-apiserver's watch cache ignores the limit.
    let paged = options.limit.filter(|_| options.revision.as_deref() != Some("0"));
    let limit = paged.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let mut matching = objects.filter(|(_, stored)| options.selection.matches(stored));
    let items: Vec<Arc<Stored>> =
        matching.by_ref().take(limit).map(|(_, stored)| Arc::clone(stored)).collect();
    let next = matching.next().map(|(key, _)| key);
    let selects = !options.selection.labels.is_empty() || !options.selection.fields.is_empty();
    let remaining = if next.is_some() && !selects { Some(matching.count() + 1) } else { None };
    let token = next.map(|key| {
        Token { rv: revision, ns: key.namespace.clone(), name: key.name.clone() }.write()
    });
    Page { resource, revision, items, token, remaining }
}

impl Token {
    fn read(text: &str) -> Result<Self, Status> {
        let invalid = || {
            Status::bad_request(
                "invalid continue token: continue key is not valid: it was not given out by this server",
            )
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        serde_json::from_slice(&bytes).map_err(|_| invalid())
    }

    fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(
            serde_json::to_vec(self).expect("a struct of numbers and strings always encodes"),
        )
    }
}
