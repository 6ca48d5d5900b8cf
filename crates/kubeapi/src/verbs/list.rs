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

/// The label and field selectors of a list or watch.
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

/// Contents of the continue token: the first object of the next page, and the common revision of all pages.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    rv: u64,
    ns: String,
    name: String,
}

/// Lists objects; all pages of a list show the same revision. Answers 400 for contradictory options, 410 when that
/// revision has left the log.
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
        // The token may be from the time before the server was restored from an older backup: its revision does
        // not exist any more.
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

/// Returns the refusal of a `resourceVersionMatch` that contradicts the
/// other options (apimachinery `ValidateListOptions`).
pub(crate) fn invalid_match(why: &str) -> Status {
    let cause = Cause::forbidden("resourceVersionMatch", why);
    Status::invalid("meta.k8s.io", "ListOptions", "", &[cause])
}

fn check_match(options: &ListOptions) -> Result<(), Status> {
    let revision = options.revision.as_deref().unwrap_or_default();
    match options.revision_match.as_deref() {
        None => Ok(()),
        Some("NotOlderThan") if !revision.is_empty() && options.token.is_none() => Ok(()),
        Some("Exact") if !matches!(revision, "" | "0") && options.token.is_none() => Ok(()),
        _ => Err(invalid_match(
            "takes NotOlderThan or Exact with a resourceVersion, and neither with continue",
        )),
    }
}

fn wanted_revision(state: &State, options: &ListOptions) -> Result<u64, Status> {
    let not_a_revision = |_| Status::bad_request("the resourceVersion must be a number");
    let requested =
        options.revision.as_deref().map_or(Ok(0), str::parse).map_err(not_a_revision)?;
    if requested > state.revision {
        return Err(Status::revision_too_large(requested, state.revision));
    }
    let exact = match options.revision_match.as_deref() {
        // In a request without resourceVersionMatch, a limit together with a revision means exactly that revision.
        None => options.limit.is_some(),
        Some(wanted) => wanted == "Exact",
    };
    Ok(if exact && requested > 0 { requested } else { state.revision })
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
    // With resourceVersion 0 the client accepts any revision, and kube-apiserver's watch cache ignores the limit.
    let paged = options.limit.filter(|_| options.revision.as_deref() != Some("0"));
    let limit = paged.unwrap_or(usize::MAX);
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
        let token = URL_SAFE_NO_PAD.decode(text).ok();
        token
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| Status::bad_request("the continue token was not issued by this server"))
    }

    fn write(&self) -> String {
        let text = serde_json::to_vec(self);
        URL_SAFE_NO_PAD.encode(text.expect("a struct of numbers and strings always encodes"))
    }
}
