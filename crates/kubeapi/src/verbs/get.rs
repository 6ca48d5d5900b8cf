use super::Target;
use crate::object::Stored;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::State;
use std::sync::Arc;

/// Reads one object.
///
/// # Errors
/// 404.
pub(crate) fn get(state: &State, target: &Target) -> Result<(Resource, Arc<Stored>), Status> {
    let resource = target.resolve(&state.registry)?;
    let name = target.name.as_deref().unwrap_or_default();
    let key = target.key(&resource.definition, name);
    let stored = state.objects.get(&key).cloned();
    let stored = stored.ok_or_else(|| Status::not_found(resource.definition.subject(name)))?;
    Ok((resource, stored))
}
