//! The model as a file, and files that are no model.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod calibration;

use std::sync::OnceLock;

use calibration::Calibration;
use power_study::{Model, Problem, Question, choose};
use proptest::prelude::*;
use serde_json::{Value, json};

fn file() -> Value {
    Calibration::new(2, 0.05).fit().unwrap().to_json()
}

/// The refusal of a model that somebody changed by hand.
fn refused(change: impl FnOnce(&mut Value)) -> String {
    let mut file = file();
    change(&mut file);
    Model::from_json(&file.to_string()).err().map_or_else(|| "read".to_owned(), |e| e.to_string())
}

fn rows<'v>(file: &'v mut Value, rows: &str) -> &'v mut Vec<Value> {
    file[rows].as_array_mut().unwrap()
}

#[test]
fn a_model_has_the_documented_fields() {
    let file = file();
    let fields: Vec<&String> = file.as_object().unwrap().keys().collect();
    let expected = [
        "basis", "caps_w", "corun", "errors", "format", "gpu", "held_out", "measured", "over95", "range",
        "solo", "source",
    ];
    assert_eq!(fields, expected);
    assert_eq!(file["caps_w"], json!([150, 170, 190, 210, 230, 250]));
    assert_eq!((&file["format"], &file["basis"]), (&json!(1), &json!("arima2022")));
    assert_eq!((file["solo"].as_array().unwrap().len(), file["corun"].as_array().unwrap().len()), (24, 24));
    assert_eq!(
        (&file["measured"][0]["state"], &file["measured"][0]["cap_w"]),
        (&json!("4c+3c"), &json!(150))
    );
    let over = file["over95"].as_array().unwrap();
    let views: Vec<[&str; 2]> =
        over.iter().map(|row| ["part", "beside"].map(|f| row[f].as_str().unwrap())).collect();
    assert_eq!(views, [["3c", "4c"], ["4c", "3c"], ["3g", "4g"], ["4g", "3g"]]);
}

/// Reading a number may be off by its last bit.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 2.0 * f64::EPSILON * a.abs()
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && same(a, b))
        }
        _ => a == b,
    }
}

#[test]
fn a_model_is_read_as_it_was_written() {
    let file = file();
    let read = Model::from_json(&file.to_string()).unwrap().to_json();
    assert!(same(&file, &read), "{file:#}\n{read:#}");
}

#[test]
fn other_forms_are_refused_by_name() {
    assert_eq!(
        refused(|f| f["format"] = json!(2)),
        "format 2 of the power model is unknown, expected 1: fit the model again"
    );
    assert_eq!(
        Model::from_json(r#"{"format": "power-2"}"#).unwrap_err().to_string(),
        "format \"power-2\" of the power model is unknown, expected 1: fit the model again"
    );
    assert_eq!(
        Model::from_json("{}").unwrap_err().to_string(),
        "format null of the power model is unknown, expected 1: fit the model again"
    );
    assert!(Model::from_json("app,gpu").unwrap_err().to_string().starts_with("not a power model: "));
    let missing = refused(|f| drop(f.as_object_mut().unwrap().remove("solo")));
    assert!(missing.starts_with("not a power model: missing field `solo`"), "{missing}");
    assert_eq!(
        refused(|f| f["basis"] = json!("magic")),
        "`magic` is not a basis: expected tessera, arima2022 or dcgm"
    );
    assert_eq!(refused(|f| f["basis"] = json!("dcgm")), "solo: 3c at 150 W has 6 coefficients, expected 5");
    assert_eq!(refused(|f| f["range"]["min"][3] = json!(null)), "range has no row for f4");
    assert_eq!(refused(|f| f["gpu"] = json!("a100")), "gpu: `a100` is not a known GPU model");
}

#[test]
fn changes_by_hand_are_refused_by_name() {
    assert_eq!(
        refused(|f| f["caps_w"] = json!([170, 150, 190, 210, 230, 250])),
        "caps_w is not ascending: [170, 150, 190, 210, 230, 250]"
    );
    assert_eq!(refused(|f| f["caps_w"] = json!([])), "caps_w is not ascending: []");
    assert_eq!(
        refused(|f| f["caps_w"][5] = json!(9000)),
        "`9000` is not a power cap: expected whole watts from 50 to 2000"
    );
    assert_eq!(refused(|f| drop(rows(f, "solo").remove(0))), "solo has no row for 3c at 150 W");
    assert_eq!(refused(|f| rows(f, "solo").retain(|r| r["part"] != "4g")), "solo has no row for 4g");
    assert_eq!(refused(|f| drop(rows(f, "corun").pop())), "corun has no row for 4g beside 3g at 250 W");
    assert_eq!(
        refused(|f| rows(f, "corun").retain(|r| r["part"] != "4g")),
        "corun has no row for 4g beside 3g"
    );
    assert_eq!(refused(|f| rows(f, "corun").clear()), "corun: there are no rows");
    assert_eq!(refused(|f| drop(rows(f, "over95").remove(1))), "over95 has no row for 4c beside 3c");
    assert_eq!(refused(|f| f["over95"][0]["over"] = json!(-0.1)), "over95: over is below 0");
    let twice = |f: &mut Value| {
        let row = f["solo"][3].clone();
        rows(f, "solo").push(row);
    };
    assert_eq!(refused(twice), "solo: 3c at 210 W is listed twice");
    assert_eq!(
        refused(|f| drop(f["corun"][0]["d"].as_array_mut().unwrap().pop())),
        "corun: 3c beside 4c at 150 W has 2 coefficients, expected 3"
    );
    assert_eq!(refused(|f| f["solo"][0]["cap_w"] = json!(160)), "solo: 3c at 160 W is not a cap of caps_w");
    assert_eq!(refused(|f| f["range"]["min"][2] = json!(100)), "range: min is above max");
    assert_eq!(
        refused(|f| f["measured"][0]["rperf"][1] = json!(0)),
        "measured: 4c+3c needs 2 applications, each with rperf above 0"
    );
    let larger = Model::from_json(&file().to_string().replace("3g", "7g"));
    assert_eq!(larger.unwrap_err().to_string(), "`4g+7g` does not fit on one a100-40gb");
}

/// Replaces the value at a random place below `value`.
fn damage(value: &mut Value, path: &[prop::sample::Index], by: &Value) {
    let Some((first, rest)) = path.split_first() else { return *value = by.clone() };
    match value {
        Value::Array(items) if !items.is_empty() => damage(first.get_mut(items), rest, by),
        Value::Object(fields) => {
            let key = first.get(&fields.keys().cloned().collect::<Vec<_>>()).clone();
            damage(&mut fields[&key], rest, by);
        }
        _ => *value = by.clone(),
    }
}

proptest! {
    #[test]
    fn a_damaged_model_is_refused_or_answers(
        path in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
        by in prop_oneof![
            Just(json!(null)), Just(json!(-1)), Just(json!(0)), Just(json!(1e300)), Just(json!("4g")), Just(json!([])),
            Just(json!({})), Just(json!(170)), Just(json!("full")), Just(json!("2c+2c")),
        ],
    ) {
        static WHOLE: OnceLock<(Calibration, Value)> = OnceLock::new();
        let (calibration, whole) = WHOLE.get_or_init(|| (Calibration::new(2, 0.05), file()));
        let mut damaged = whole.clone();
        damage(&mut damaged, &path, &by);
        if let Ok(model) = Model::from_json(&damaged.to_string()) {
            let (apps, features) = calibration.of(&[5, 14]);
            for guard in [true, false] {
                let (problem, alpha) = (Problem::Efficiency, 0.2);
                let question = Question { apps: &apps, features: &features, problem, alpha, guard };
                let Ok(choice) = choose(&model, &question) else { continue };
                prop_assert_eq!(choice.chosen.is_some(), choice.candidates.iter().any(|c| c.allowed));
            }
        }
    }
}
