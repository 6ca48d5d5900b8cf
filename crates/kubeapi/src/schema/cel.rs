//! `x-kubernetes-validations`: CEL rules, run by the `cel` crate. A rule that the crate cannot run refuses the CRD.

use super::{Schema, Type, validate};
use crate::status::Cause;
use cel::common::ast::{EntryExpr, Expr, IdedExpr as Expression};
use cel::{Context, Env, Program, Value as Cel, extensions};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Functions that mean the same here as in Kubernetes; a rule that calls another one is refused.
const FUNCTIONS: &str = "\
    bool bytes charAt contains double duration dyn endsWith int join lowerAscii matches replace size split \
    startsWith string substring timestamp trim type uint upperAscii";
/// Words of the language, which no field may be called by (cel-spec, "Identifiers").
const RESERVED: &str = "\
    as break const continue else false for function if import in let loop namespace null package return true var \
    void while";
/// Formats that Kubernetes hands to CEL as timestamps and durations, and this server does not.
const TYPED_FORMATS: [&str; 3] = ["date-time", "date", "duration"];

/// The standard library with the string functions that Kubernetes has (lowerAscii, split, substring, …).
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings)
        .expect("the string extension registers once in a fresh environment");
    Arc::new(env)
});

/// One compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    source: String,
    program: Program,
    message: Option<String>,
    message_expression: Option<Program>,
    field_path: String,
    reason: &'static str,
    transition: bool,
}

impl Rule {
    /// Compiles the rules of one schema node.
    pub(super) fn compile_all(rules: Option<&Value>, schema: &Value) -> Result<Vec<Self>, String> {
        let Some(rules) = rules else { return Ok(Vec::new()) };
        let rules = rules.as_array().ok_or("must be an array")?;
        rules.iter().map(|rule| Self::compile(rule, schema)).collect()
    }

    fn compile(rule: &Value, schema: &Value) -> Result<Self, String> {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).map(str::to_owned);
        let source =
            text("rule").filter(|rule| !rule.trim().is_empty()).ok_or("rule: Required value")?;
        if rule.get("optionalOldSelf").and_then(Value::as_bool) == Some(true) {
            return Err(format!(
                "rule {source:?}: optionalOldSelf is not supported by this server"
            ));
        }
        let program = program(&source, schema)?;
        let transition = program.references().has_variable("oldSelf");
        let message_expression =
            text("messageExpression").map(|source| self::program(&source, schema)).transpose()?;
        Ok(Self {
            transition,
            program,
            message: text("message"),
            message_expression,
            field_path: text("fieldPath").unwrap_or_default(),
            reason: reason(text("reason").as_deref())?,
            source,
        })
    }

    /// The cause, when the rule refuses `value`. A transition rule (one with `oldSelf`) does not run for a new value.
    pub(super) fn check(
        &self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> Option<Cause> {
        if self.transition && old.is_none() {
            return None;
        }
        if schema.kind == Some(Type::Integer) && value.is_f64() {
            // kube-apiserver hands CEL what Go decodes, and Go decodes `3.0` as a float64.
            let problem =
                format!("invalid data, expected int, got float64 evaluating rule: {}", self.source);
            return Some(Cause::invalid(path, &Value::from("integer"), problem));
        }
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value("self", to_cel(Some(schema), value));
        if let Some(old) = old {
            context.add_variable_from_value("oldSelf", to_cel(Some(schema), old));
        }
        let problem = match self.program.execute(&context) {
            Ok(Cel::Bool(true)) => return None,
            Ok(Cel::Bool(false)) => self.explain(&context),
            Ok(other) => format!("rule {:?} gave {other:?}, not true or false", self.source),
            Err(error) => format!("rule {:?} could not be evaluated: {error}", self.source),
        };
        let field = format!("{path}{}", self.field_path);
        let field = validate::at(field.trim_start_matches('.')).to_owned();
        let compound = value.is_object() || value.is_array();
        Some(match self.reason {
            "FieldValueForbidden" => Cause::forbidden(field, problem),
            "FieldValueRequired" => Cause::required(field, &problem),
            "FieldValueDuplicate" => Cause::duplicate(field, value),
            _ if compound => Cause::invalid_without_value(field, problem),
            _ => Cause::invalid(field, value, problem),
        })
    }

    fn explain(&self, context: &Context<'_, '_>) -> String {
        let computed = self.message_expression.as_ref().and_then(|expression| {
            match expression.execute(context) {
                Ok(Cel::String(text)) if !text.trim().is_empty() => Some(text.to_string()),
                _ => None,
            }
        });
        computed
            .or_else(|| self.message.clone())
            .unwrap_or_else(|| format!("failed rule: {}", self.source))
    }
}

fn program(source: &str, schema: &Value) -> Result<Program, String> {
    let program = ENV
        .compile(source)
        .map_err(|errors| format!("rule {source:?} does not compile: {errors}"))?;
    let references = program.references();
    // The names of operators start with no letter: `_+_`, `!_`, `@in`.
    let known = |name: &str| {
        FUNCTIONS.split(' ').any(|known| known == name)
            || !name.starts_with(|first: char| first.is_ascii_alphabetic())
    };
    let mut missing: Vec<&str> =
        references.functions().into_iter().filter(|name| !known(name)).collect();
    missing.sort_unstable();
    if !missing.is_empty() {
        return Err(format!(
            "rule {source:?} calls {}, which this server does not have",
            missing.join(" and ")
        ));
    }
    let mut free = Vec::new();
    free_variables(program.expression(), &mut Vec::new(), &mut free);
    if let Some(name) =
        free.iter().find(|name| !matches!(**name, "self" | "oldSelf") && !is_type_name(name))
    {
        return Err(format!("rule {source:?} names {name}, which is neither self nor oldSelf"));
    }
    let own = is_typed(schema).then_some("self");
    if let Some(field) = own.or_else(|| typed_field(schema, source)) {
        return Err(format!(
            "rule {source:?} uses {field}, whose format this server compares as plain text"
        ));
    }
    Ok(program)
}

/// Adds the variables of an expression that none of its macros binds.
fn free_variables<'a>(
    expression: &'a Expression,
    bound: &mut Vec<&'a str>,
    free: &mut Vec<&'a str>,
) {
    match &expression.expr {
        Expr::Ident(name) if !name.starts_with('@') && !bound.contains(&name.as_str()) => {
            free.push(name);
        }
        Expr::Call(call) => {
            call.target.iter().for_each(|target| free_variables(target, bound, free));
            call.args.iter().for_each(|argument| free_variables(argument, bound, free));
        }
        Expr::List(list) => {
            list.elements.iter().for_each(|element| free_variables(element, bound, free));
        }
        Expr::Map(map) => {
            map.entries.iter().for_each(|entry| free_in_entry(&entry.expr, bound, free));
        }
        Expr::Struct(made) => {
            made.entries.iter().for_each(|entry| free_in_entry(&entry.expr, bound, free));
        }
        Expr::Select(select) => free_variables(&select.operand, bound, free),
        Expr::Comprehension(comprehension) => {
            free_variables(&comprehension.iter_range, bound, free);
            free_variables(&comprehension.accu_init, bound, free);
            let before = bound.len();
            bound.extend([comprehension.iter_var.as_str(), comprehension.accu_var.as_str()]);
            bound.extend(comprehension.iter_var2.as_deref());
            for part in [&comprehension.loop_cond, &comprehension.loop_step, &comprehension.result]
            {
                free_variables(part, bound, free);
            }
            bound.truncate(before);
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn free_in_entry<'a>(entry: &'a EntryExpr, bound: &mut Vec<&'a str>, free: &mut Vec<&'a str>) {
    match entry {
        EntryExpr::StructField(field) => free_variables(&field.value, bound, free),
        EntryExpr::MapEntry(entry) => {
            free_variables(&entry.key, bound, free);
            free_variables(&entry.value, bound, free);
        }
    }
}

fn is_type_name(name: &str) -> bool {
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"]
        .contains(&name)
}

fn is_typed(schema: &Value) -> bool {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    TYPED_FORMATS.contains(&format)
}

/// A field of a typed format that the rule's text names.
fn typed_field<'a>(schema: &'a Value, source: &str) -> Option<&'a str> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let found = properties.filter_map(|(name, property)| {
        let here = is_typed(property) && source.contains(name.as_str());
        if here { Some(name.as_str()) } else { typed_field(property, source) }
    });
    let below = ["items", "additionalProperties"]
        .iter()
        .filter_map(|key| typed_field(schema.get(key)?, source));
    found.chain(below).next()
}

fn reason(name: Option<&str>) -> Result<&'static str, String> {
    match name {
        None | Some("FieldValueInvalid") => Ok("FieldValueInvalid"),
        Some("FieldValueForbidden") => Ok("FieldValueForbidden"),
        Some("FieldValueRequired") => Ok("FieldValueRequired"),
        Some("FieldValueDuplicate") => Ok("FieldValueDuplicate"),
        Some(other) => Err(format!("reason {other:?} is none that a rule may give")),
    }
}

/// JSON as CEL sees it: whole numbers are ints, the others doubles; fields of a schema are escaped, keys of a map are not.
fn to_cel(schema: Option<&Schema>, value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN)), Cel::Int),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            Cel::List(Arc::new(items.iter().map(|item| to_cel(schema, item)).collect()))
        }
        Value::Object(map) => {
            // A field that is null is one that is not set.
            let is_set = |(name, value): &(&String, &Value)| {
                !(value.is_null()
                    && schema.is_some_and(|schema| schema.properties.contains_key(*name)))
            };
            let entry = |(name, value): (&String, &Value)| match schema
                .and_then(|schema| schema.properties.get(name))
            {
                Some(property) => (escape(name), to_cel(Some(property), value)),
                None => (
                    name.clone(),
                    to_cel(schema.and_then(|schema| schema.additional.as_deref()), value),
                ),
            };
            Cel::from(map.iter().filter(is_set).map(entry).collect::<HashMap<String, Cel>>())
        }
    }
}

/// Names that CEL could not spell are written as Kubernetes writes them (`__dash__` and so on).
fn escape(name: &str) -> String {
    if RESERVED.split(' ').any(|word| word == name) {
        return format!("__{name}__");
    }
    if !name.contains(['_', '.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
