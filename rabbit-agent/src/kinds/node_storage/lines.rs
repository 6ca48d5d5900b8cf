//! Expands the variables in a profile's lines, for one file system or target of an object.

use std::collections::BTreeMap;

use api::{NnfNodeStorage, NnfStorageProfile, RabbitLabels, names::label};
use storage::{
    desired::{Hook, HookId, HookPoint, HookScope, ObjectUid},
    template::SiteCommand,
};

use super::desired::NodeStorageError;

/// Values of variables in profile lines; the names include the `$`.
pub type Variables = BTreeMap<String, String>;

/// Returns the uid of the object that owns the storage.
pub fn owner(object: &NnfNodeStorage) -> Result<ObjectUid, NodeStorageError> {
    let owner = object.label(label::OWNER_UID).ok_or(NodeStorageError::Label(label::OWNER_UID))?;
    owner.parse().map_err(NodeStorageError::Owner)
}

/// Returns three kinds of variables: those that every object has, the `known` ones, and those that the object itself
/// defines. If a name occurs twice, the later kind wins.
pub fn variables<const N: usize>(
    object: &NnfNodeStorage,
    known: [(&str, String); N],
    index: u32,
    count: u32,
) -> Result<Variables, NodeStorageError> {
    let (spec, label) = (&object.spec, |key| object.label(key).unwrap_or_default().to_owned());
    let of_job = [
        ("$JOBID", label(label::JOB_ID)),
        ("$DIRECTIVE_INDEX", label(label::DIRECTIVE_INDEX)),
        ("$WORKFLOW_UID", label(label::WORKFLOW_UID)),
        ("$USERID", spec.user_id.to_string()),
        ("$GROUPID", spec.group_id.to_string()),
    ];
    let all = of_job.into_iter().chain(known);
    let mut known: Variables = all.map(|(name, value)| (name.to_owned(), value)).collect();
    for (place, variable) in spec.command_variables.iter().enumerate() {
        let name = &variable.name;
        if !name.starts_with('$') || name.len() < 2 {
            return Err(NodeStorageError::VariableName { place, name: name.clone() });
        }
        let value = if variable.indexed {
            let values = &variable.indexed_values;
            values.get(index as usize).ok_or_else(|| NodeStorageError::IndexedValues {
                place,
                name: name.clone(),
                values: values.len(),
                count,
            })?
        } else {
            &variable.value
        };
        known.insert(name.clone(), value.clone());
    }
    Ok(known)
}

/// A profile and the values of the variables in its lines.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'a> {
    pub profile: &'a NnfStorageProfile,
    /// The field that contains the lines, e.g. `data.xfsStorage`.
    pub root: &'a str,
    pub variables: &'a Variables,
}

impl Lines<'_> {
    /// Returns the command of the line in field `name`; `None` for a blank line.
    pub fn line(&self, name: &str, line: &str) -> Result<Option<SiteCommand>, NodeStorageError> {
        let field = format!("{}.{name}", self.root);
        SiteCommand::new(&field, line, self.variables.clone())
            .map_err(|source| NodeStorageError::in_profile(self.profile, source))
    }

    /// Returns the hooks in field `name`, one for each line.
    pub fn hooks(
        &self,
        scope: &HookScope,
        phase: HookPoint,
        name: &str,
        lines: &[String],
    ) -> Result<Vec<Hook>, NodeStorageError> {
        let mut hooks = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let id = HookId { scope: scope.clone(), phase, index };
            let command = self.line(&format!("{name}[{index}]"), line)?;
            hooks.extend(command.map(|command| Hook { id, command }));
        }
        Ok(hooks)
    }
}
