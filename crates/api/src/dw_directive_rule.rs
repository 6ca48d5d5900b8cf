//! `DWDirectiveRule`: the commands of `#DW` directives and the arguments that each accepts. `spec` is a list; there is
//! no status.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Fields of the object beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "DWDirectiveRule",
    plural = "dwdirectiverules",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "The commands of `#DW` directives and the arguments that each accepts"
)]
#[serde(default)]
pub struct DWDirectiveRuleBody {
    /// Rules, one for each command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spec: Vec<DWDirectiveRuleSpec>,
}

/// Rule for one command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DWDirectiveRuleSpec {
    /// Command: the word after `#DW`.
    pub command: String,
    /// Name of the driver that carries the command out; by default the name of this object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver_label: String,
    /// States in which the driver has work for the command, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub watch_states: String,
    /// Arguments that the command accepts.
    #[serde(default)]
    #[schemars(!default)]
    pub rule_defs: Vec<DWDirectiveRuleDef>,
}

/// Rule for one argument.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DWDirectiveRuleDef {
    /// Regular expression for the argument's name; a match of a part of the name is enough.
    pub key: String,
    /// Type of the value: `integer`, `bool`, `string` or `list-of-string`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Regular expression for the value of a `string`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pattern: String,
    /// Regular expressions for the words of a `list-of-string`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// Smallest integer; 0 for no limit.
    #[serde(default, skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int")]
    pub min: i64,
    /// Largest integer; 0 for no limit.
    #[serde(default, skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int")]
    pub max: i64,
    /// True if the command is invalid without the argument.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub is_required: bool,
    /// True if the argument is invalid without a value.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub is_value_required: bool,
    /// Tag for a check over a whole workflow: no two arguments with the same tag may have the same value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unique_within: String,
}
