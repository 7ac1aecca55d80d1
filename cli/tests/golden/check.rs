//! `tessera check`.

use std::fs;

use insta::assert_snapshot;

use super::{SITE, Site};

#[test]
fn check() {
    let site = Site::new();
    assert_snapshot!(site.run(&["check"]), @r"
    tessera.toml: good
      n1: 8 x a100-40gb, links dgx-v, MIG dynamic
      n2: 2 x h100-80gb-sxm, links pcie, MIG dynamic
    exit 0
    ");
    fs::write(site.path().join("bad.toml"), SITE.replace("dgx-v", "dgx-w").replace("gpu_mem", "gpu_men"))
        .unwrap();
    assert_snapshot!(site.run(&["check", "bad.toml"]), @r#"
    bad.toml:3:1: unknown key gpu_men in [defaults]
    gpu_men = "5G"
    ^~~~~~~  hint: did you mean gpu_mem?
    bad.toml:12:17: unknown interconnect "dgx-w"
    interconnect = "dgx-w"
                    ^~~~~  hint: did you mean dgx-v?
    bad.toml: 2 errors
    exit 1
    "#);
    assert_snapshot!(site.run(&["--config", "bad.toml", "layout", "--from", "layout"]), @r#"
    stderr: tessera: bad.toml has 2 errors
    stderr: bad.toml:3:1: unknown key gpu_men in [defaults]
    stderr: gpu_men = "5G"
    stderr: ^~~~~~~  hint: did you mean gpu_mem?
    stderr: bad.toml:12:17: unknown interconnect "dgx-w"
    stderr: interconnect = "dgx-w"
    stderr:                 ^~~~~  hint: did you mean dgx-v?
    exit 1
    "#);
    assert_snapshot!(site.run(&["check", "none.toml"]), @r"
    stderr: tessera: cannot read none.toml: No such file or directory (os error 2)
    stderr: hint: name another file with --config or TESSERA_CONF; `tessera discover` writes a first one
    exit 1
    ");
}
