//! Values for a schema: valid, nearly valid, and nonsense.

use crate::random::Random;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    Valid,
    /// Mostly valid: sometimes a part of the value is invalid.
    Nearly,
}

const WORDS: [&str; 14] = [
    "a",
    "abc",
    "on",
    "off",
    "bad",
    "x1",
    "12",
    "123",
    "",
    "häßlich",
    "日本語",
    "a b",
    "first",
    "longer than most",
];

/// Returns a value that a client may send for `schema`.
pub(crate) fn value(random: &mut Random, schema: &Value, care: Care) -> Value {
    if care == Care::Nearly && random.chance(3) {
        let has_format = schema["format"].is_string();
        return if has_format { no_list(random) } else { nonsense(random) };
    }
    if schema["nullable"] == true && random.chance(20) {
        return Value::Null;
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices[random.below(choices.len())].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if random.chance(50) {
            json!(random.below(100))
        } else {
            json!(random.pick(&WORDS))
        };
    }
    match schema["type"].as_str() {
        Some("string") => string(random, schema, care),
        Some("integer") => integer(random, schema, care),
        Some("number") => number(random, schema, care),
        Some("boolean") => json!(random.chance(50)),
        Some("array") => array(random, schema, care),
        Some("object") => object(random, schema, care),
        _ => nonsense(random),
    }
}

/// Returns a value of any type.
pub(crate) fn nonsense(random: &mut Random) -> Value {
    let all = [
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e20),
        json!(9_007_199_254_740_993_i64),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(4_294_967_296_i64),
        json!(""),
        json!("nonsense"),
        json!("\u{1f407}"),
        json!([]),
        json!({}),
        json!([null]),
        json!({"a": null}),
        json!(["a", "a"]),
        json!({"name": "n", "unknown": {"deep": [1]}}),
    ];
    all[random.below(all.len())].clone()
}

/// Returns a value of any type except a list. It is for strings with a format: kube-apiserver, like Go, accepts a list
/// of numbers as the bytes of such a string, and no client sends such a list.
pub(crate) fn no_list(random: &mut Random) -> Value {
    match nonsense(random) {
        Value::Array(_) => json!("nonsense"),
        other => other,
    }
}

fn string(random: &mut Random, schema: &Value, care: Care) -> Value {
    if care == Care::Nearly && random.chance(12) {
        return json!(random.pick(&WORDS));
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        return json!(match pattern {
            "^[a-z]+$" => "abc",
            "^a.*" => "abc",
            "^(on|off)$" => "on",
            "[0-9]{2,3}" => "x123",
            _ => "12.5",
        });
    }
    if schema["format"].is_string() {
        return json!(time(random, care));
    }
    let (least, most) = (
        schema["minLength"].as_u64().unwrap_or(0) as usize,
        schema["maxLength"].as_u64().unwrap_or(12) as usize,
    );
    let fits = |word: &&str| (least..=most).contains(&word.chars().count());
    let words: Vec<&str> = WORDS.into_iter().filter(fits).collect();
    json!(random.pick(&words))
}

/// Returns a valid time, or a text that people may mistake for one.
fn time(random: &mut Random, care: Care) -> &'static str {
    let good = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05+02:00"];
    let odd = [
        "2026-01-02",
        "2026-13-02T03:04:05Z",
        "2026-01-02T03:04:05",
        "2026-01-02 03:04:05Z",
        "2026-02-30T00:00:00Z",
        "2026-01-02T24:00:00Z",
    ];
    if care == Care::Nearly && random.chance(40) { random.pick(&odd) } else { random.pick(&good) }
}

fn integer(random: &mut Random, schema: &Value, care: Care) -> Value {
    if care == Care::Nearly && random.chance(15) {
        let odd = [
            json!(-1),
            json!(13),
            json!(2.5),
            json!(2_147_483_648_i64),
            json!(i64::MAX),
            json!(u64::MAX),
            json!(100),
            json!(1e19),
        ];
        return odd[random.below(odd.len())].clone();
    }
    let least = schema["minimum"].as_i64().unwrap_or(0);
    json!(least + 1 + random.below(5) as i64)
}

fn number(random: &mut Random, schema: &Value, care: Care) -> Value {
    if care == Care::Nearly && random.chance(15) {
        let odd = [
            json!(-1),
            json!(-0.5),
            json!(7.5),
            json!(0.1),
            json!(1e300),
            json!(1e-9),
            json!(10),
            json!(u64::MAX),
        ];
        return odd[random.below(odd.len())].clone();
    }
    let least = schema["minimum"].as_f64().unwrap_or(0.0);
    if random.chance(50) { json!(least + 2.5) } else { json!(least as i64 + 2) }
}

fn array(random: &mut Random, schema: &Value, care: Care) -> Value {
    let most = schema["maxItems"].as_u64().unwrap_or(4) as usize;
    let extra = usize::from(care == Care::Nearly && random.chance(8)) * 4;
    let count =
        random.below(most.min(3) + 1).max(schema["minItems"].as_u64().unwrap_or(0) as usize);
    let mut items: Vec<Value> = Vec::new();
    for _ in 0..count + extra {
        let item = value(random, &schema["items"], care);
        let key = |item: &Value| item.get("name").unwrap_or(item).clone();
        if extra > 0
            || !items.iter().any(|other| key(other) == key(&item))
            || (care == Care::Nearly && random.chance(20))
        {
            items.push(item);
        }
    }
    Value::Array(items)
}

fn object(random: &mut Random, schema: &Value, care: Care) -> Value {
    let mut map = Map::new();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let needed = required.contains(&name.as_str());
        let wanted =
            if needed { care == Care::Valid || random.chance(96) } else { random.chance(55) };
        if wanted {
            map.insert(name.clone(), value(random, property, care));
        }
    }
    if schema["additionalProperties"].is_object() {
        for _ in 0..random.below(3) {
            let key = random.pick(&["k1", "k2", "k.3", "k/4", "", "ключ"]);
            map.insert(key.to_owned(), value(random, &schema["additionalProperties"], care));
        }
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true && random.chance(50) {
        map.insert("free".to_owned(), nonsense(random));
    }
    if care == Care::Nearly && random.chance(4) {
        map.insert("unknownField".to_owned(), no_list(random));
    }
    Value::Object(map)
}
