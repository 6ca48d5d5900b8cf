//! Profile lines for one unit of an object.

use std::collections::BTreeMap;

use api::{NnfNodeStorageSpec, NnfStorageProfile};
use storage::{
    desired::{Hook, HookId, HookPoint, HookScope},
    template::SiteCommand,
};

use super::desired::NodeStorageError;

/// Values of variables in profile lines, by names that include the `$`.
pub type Variables = BTreeMap<String, String>;

/// Adds the object's variables to the known ones.
pub fn with_given(
    mut known: Variables,
    spec: &NnfNodeStorageSpec,
    index: u32,
    count: u32,
) -> Result<Variables, NodeStorageError> {
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

/// Profile lines with the values of their variables.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'a> {
    pub profile: &'a NnfStorageProfile,
    /// The field beneath which they are, e.g. `data.xfsStorage`.
    pub root: &'a str,
    pub variables: &'a Variables,
}

impl Lines<'_> {
    /// The command of the line in field `name`; `None` for a blank line.
    pub fn line(&self, name: &str, line: &str) -> Result<Option<SiteCommand>, NodeStorageError> {
        let field = format!("{}.{name}", self.root);
        SiteCommand::new(&field, line, self.variables.clone())
            .map_err(|source| NodeStorageError::in_profile(self.profile, source))
    }

    /// The hooks in field `name`, one for each line.
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
