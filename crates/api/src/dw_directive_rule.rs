//! `DWDirectiveRule`: which `#DW` directives there are and what their arguments may be. Its `spec` is a list; it has no status.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What stands beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "DWDirectiveRule",
    plural = "dwdirectiverules",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "Which directives there are, and what their arguments may be"
)]
#[serde(default)]
pub struct DWDirectiveRuleBody {
    /// One rule for each command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spec: Vec<DWDirectiveRuleSpec>,
}

/// The rule of one command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DWDirectiveRuleSpec {
    /// The word after `#DW`.
    pub command: String,
    /// Who carries the command out; the name of the object where it is not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver_label: String,
    /// The states in which there is something to do, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub watch_states: String,
    /// The arguments.
    #[serde(default)]
    #[schemars(!default)]
    pub rule_defs: Vec<DWDirectiveRuleDef>,
}

/// The rule of one argument.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DWDirectiveRuleDef {
    /// The argument's name, a regular expression that need not match all of it.
    pub key: String,
    /// What its value is: `integer`, `bool`, `string` or `list-of-string`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the value looks like, a regular expression.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pattern: String,
    /// What the words of a list look like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// The smallest integer; 0 for none.
    #[serde(default, skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int")]
    pub min: i64,
    /// The largest integer; 0 for none.
    #[serde(default, skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int")]
    pub max: i64,
    /// Whether the argument must be there.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub is_required: bool,
    /// Whether it must have a value.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub is_value_required: bool,
    /// A tag: among all arguments of a workflow with this tag, no value comes twice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unique_within: String,
}
