//! `[[power_budgets]]`.

use insta::assert_snapshot;

use super::errors;

/// The errors of a budget of these lines over two nodes of two GPUs.
fn of(lines: &str) -> String {
    let nodes = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\ncap_w = 250\nidle_w = 50\n";
    errors(&format!("[[power_budgets]]\n{lines}\n{nodes}"))
}

#[test]
fn impossible_budgets() {
    assert_snapshot!(of("watts = 600"), @r#"
    tessera.toml:1:1: [[power_budgets]] has no nodes
    [[power_budgets]]
    ^~~~~~~~~~~~~~~~~  hint: add nodes = "n[1-8]", a Slurm hostlist
    "#);
    assert_snapshot!(of("nodes = \"n[1-2]\""), @r"
    tessera.toml:1:1: [[power_budgets]] has no watts
    [[power_budgets]]
    ^~~~~~~~~~~~~~~~~  hint: add watts = 12000, what the GPUs of these nodes may draw together
    ");
    assert_snapshot!(of("nodes = \"n[1-3]\"\nwatts = 600"), @r#"
    tessera.toml:2:10: node n3 is not in any [[nodes]]
    nodes = "n[1-3]"
             ^~~~~~  hint: describe it there, or leave it out
    "#);
    assert_snapshot!(of("nodes = \"n[1-\"\nwatts = 600"), @r#"
    tessera.toml:2:10: nodes = "n[1-" has a [ without a ]
    nodes = "n[1-"
             ^~~~  hint: write a Slurm hostlist such as n[1-4,7]
    "#);
    assert_snapshot!(of("nodes = \"n[1-2]\"\nwatts = 199"), @r"
    tessera.toml:3:9: 199 W is less than the 4 idle GPUs of n[1-2] draw, 200 W
    watts = 199
            ^~~  hint: use 400 or more: idle GPUs, and one with a job at 250 W
    ");
    assert_snapshot!(of("nodes = \"n[1-2]\"\nwatts = 349\nfloor_w = 200"), @r"
    tessera.toml:3:9: with 349 W no job could ever start: the 4 idle GPUs of n[1-2] draw 200 W
    watts = 349
            ^~~  hint: use 350 or more: idle GPUs, and one with a job at 200 W
    ");
    assert_snapshot!(of("nodes = \"n[1-2]\"\nwatts = 399"), @r"
    tessera.toml:3:9: with 399 W no job could ever start: the 4 idle GPUs of n[1-2] draw 200 W
    watts = 399
            ^~~  hint: use 400 or more: idle GPUs, and one with a job at 250 W
    ");
    assert_snapshot!(of("nodes = \"n[1-2]\"\nwatts = 600\nper_node = true\nfloor_w = 300"), @r"
    tessera.toml:5:1: floor_w = 300 is no cap for the GPUs of n1
    floor_w = 300
    ^~~~~~~  hint: use more than idle_w = 50 and at most cap_w = 250
    ");
    assert_snapshot!(of("nodes = \"n[1-2]\"\nwatts = 99\nper_node = true"), @r"
    tessera.toml:3:9: 99 W is less than the 2 idle GPUs of n1 draw, 100 W
    watts = 99
            ^~  hint: use 300 or more: idle GPUs, and one with a job at 250 W
    ");
    assert_snapshot!(of("nodes = \"n1\"\nwatts = 600\nfloor_w = 50"), @r"
    tessera.toml:4:1: floor_w = 50 is no cap for the GPUs of n1
    floor_w = 50
    ^~~~~~~  hint: use more than idle_w = 50 and at most cap_w = 250
    ");
    assert_snapshot!(of("nodes = \"n1\"\nwatts = \"600\"\nflor_w = 50"), @r#"
    tessera.toml:3:10: watts is a string, not a whole number
    watts = "600"
             ^~~
    tessera.toml:4:1: unknown key flor_w in [power_budgets]
    flor_w = 50
    ^~~~~~  hint: did you mean floor_w?
    "#);
    assert_eq!(of("nodes = \"n[1-2]\"\nwatts = 400"), "");
    assert_eq!(of("nodes = \"n[1-2]\"\nwatts = 350\nfloor_w = 200"), "");
}

#[test]
fn nodes_of_budgets_say_what_their_gpus_draw() {
    let nodes = |power: &str| {
        let budget = "[[power_budgets]]\nnodes = \"n1\"\nwatts = 600\n";
        errors(&format!("{budget}[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n{power}\n"))
    };
    assert_snapshot!(nodes(""), @r#"
    tessera.toml:2:10: node n1 has no cap_w, which a power budget needs
    nodes = "n1"
             ^~  hint: add cap_w to its [[nodes]]: `tessera power status` shows it as FOUND there
    "#);
    assert_snapshot!(nodes("cap_w = 250"), @r#"
    tessera.toml:2:10: node n1 has no idle_w, which a power budget needs
    nodes = "n1"
             ^~  hint: add idle_w to its [[nodes]]: `tessera power status` shows it as DRAW, without jobs, there
    "#);
    assert_snapshot!(nodes("cap_w = 250\nidle_w = 250"), @r"
    tessera.toml:9:1: idle_w = 250 is not less than cap_w = 250
    idle_w = 250
    ^~~~~~  hint: idle_w is what a GPU without jobs draws, cap_w the most that it may draw
    ");
    assert_snapshot!(nodes("cap_w = 25000\nidle_w = 50"), @r"
    tessera.toml:8:9: cap_w = 25000 is out of range
    cap_w = 25000
            ^~~~~  hint: use 1 to 10000
    ");
}

#[test]
fn models_and_counters_are_those_of_the_gpus() {
    let of_model = |gpu: &str, file: &str| {
        errors(&format!("[[nodes]]\nnames = \"n1\"\ngpu = \"{gpu}\"\ncount = 2\npower_model = \"{file}\"\n"))
    };
    assert_snapshot!(of_model("a100-40gb", "none.json"), @r#"
    tessera.toml:5:16: cannot read none.json: entity not found
    power_model = "none.json"
                   ^~~~~~~~~  hint: `tessera lab power fit` writes one
    "#);
    assert_snapshot!(of_model("a100-40gb", "good.toml"), @r#"
    tessera.toml:5:16: good.toml: not a power model: expected ident at line 1 column 4
    power_model = "good.toml"
                   ^~~~~~~~~
    "#);
    assert_snapshot!(super::beside("[power]\ncounters = \"empty.toml\"\nalpha = 2\nguard = 1"), @r#"
    tessera.toml:2:13: empty.toml:1:app: the first line must be the header app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8
    counters = "empty.toml"
                ^~~~~~~~~~
    tessera.toml:3:9: alpha = 2 is out of range
    alpha = 2
            ^  hint: use 0 to 1
    tessera.toml:4:9: guard is a number, not true or false
    guard = 1
            ^
    "#);
}
