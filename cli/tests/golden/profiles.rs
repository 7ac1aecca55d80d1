//! `tessera profiles`.

use insta::assert_snapshot;

use super::run;

#[test]
fn profiles() {
    assert_snapshot!(run("profiles"), @r"
    MODEL                MEMORY  SMs  SHARDS  PROFILES
    a30-24gb            25.8 GB   56      24  1g.6gb 2g.12gb 4g.24gb
    a100-40gb           42.9 GB  108      40  1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb
    a100-80gb           85.9 GB  108      80  1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb
    h100-80gb-sxm       85.5 GB  132      80  1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb
    h100-80gb-pcie      85.5 GB  114      80  1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb
    h100-94gb-nvl      100.5 GB  132      96  1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb
    gh200-96gb         102.6 GB  132      96  1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb
    h200-141gb         150.8 GB  132     144  1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb
    gh200-144gb        154.0 GB  132     144  1g.18gb 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb
    h20-96gb           102.6 GB   78      96  1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb
    h20-141gb          150.8 GB   78     144  1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb
    b200-180gb         192.3 GB  148     184  1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb
    gb200-186gb        198.7 GB  152     184  1g.23gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb
    b300-269gb         288.4 GB   98     272  1g.34gb 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb
    gb300-278gb        298.0 GB   98     280  1g.35gb 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb
    rtx-pro-6000-96gb  102.6 GB  188      96  1g.24gb 2g.48gb 4g.96gb
    p100-12gb           12.8 GB   56      12  (MIG: none)
    p100-16gb           17.1 GB   56      16  (MIG: none)
    p40-24gb            24.0 GB   30      24  (MIG: none)
    p4-8gb               8.0 GB   20       8  (MIG: none)
    v100-16gb           16.9 GB   80      16  (MIG: none)
    v100-32gb           34.1 GB   80      32  (MIG: none)
    t4-16gb             16.1 GB   40      16  (MIG: none)
    rtx6000-24gb        24.2 GB   72      24  (MIG: none)
    rtx8000-48gb        48.3 GB   72      48  (MIG: none)
    a2-16gb             16.1 GB   10      16  (MIG: none)
    a10-24gb            24.1 GB   72      24  (MIG: none)
    a10g-24gb           24.1 GB   80      24  (MIG: none)
    a16-16gb            16.1 GB   10      16  (MIG: none)
    a40-48gb            48.3 GB   84      48  (MIG: none)
    rtxa6000-48gb       48.3 GB   84      48  (MIG: none)
    l4-24gb             24.2 GB   58      24  (MIG: none)
    l20-48gb            48.3 GB   92      48  (MIG: none)
    l40-48gb            48.3 GB  142      48  (MIG: none)
    l40s-48gb           48.3 GB  142      48  (MIG: none)
    rtx6000ada-48gb     48.3 GB  142      48  (MIG: none)
    rtx-pro-5000-48gb   51.3 GB  110      48  (MIG: its geometry is not known)
    rtx-pro-4500-32gb   34.2 GB   82      32  (MIG: its geometry is not known)

    `tessera profiles MODEL` shows memory, SMs and placements of each profile.
    exit 0
    ");
    assert_snapshot!(run("profiles a100-40gb"), @r"
    a100-40gb: NVIDIA A100-SXM4-40GB, NVIDIA A100-PCIE-40GB, A100-SXM4-40GB, A100-PCIE-40GB, NVIDIA A800-SXM4-40GB, NVIDIA A800 40GB Active
    42.9 GB (40.0 GiB), 108 SMs, 7 compute slices, 8 memory slices, 40 shards

    PROFILE    ID   MEMORY            SMs  SHARDS  MOST  STARTS (MEMORY SLICES)
    1g.5gb     19   5.1 GB   4.8 GiB   14       5     7  0 1 2 3 4 5 6 (1)
    1g.5gb+me  20   5.1 GB   4.8 GiB   14       5     1  0 1 2 3 4 5 6 (1)
    1g.10gb    15  10.3 GB   9.6 GiB   14      10     4  0 2 4 6 (2)
    2g.10gb    14  10.3 GB   9.6 GiB   28      10     3  0 2 4 (2)
    3g.20gb     9  20.9 GB  19.5 GiB   42      20     2  0 4 (4)
    4g.20gb     5  20.9 GB  19.5 GiB   56      20     1  0 (4)
    7g.40gb     0  42.1 GB  39.2 GiB   98      40     1  0 (8)
    exit 0
    ");
    assert_snapshot!(run("profiles b300-269gb"), @r"
    b300-269gb: NVIDIA B300 SXM6 AC
    288.4 GB (268.6 GiB), 98 SMs, 7 compute slices, 8 memory slices, 272 shards

    PROFILE     ID     MEMORY             SMs  SHARDS  MOST  STARTS (MEMORY SLICES)
    1g.34gb     19   ~32.4 GB   30.2 GiB   12      34     7  0 1 2 3 4 5 6 (1)
    1g.34gb+me  20   ~32.4 GB   30.2 GiB   12      34     1  0 1 2 3 4 5 6 (1)
    1g.67gb     15   ~64.8 GB   60.4 GiB   12      68     4  0 2 4 6 (2)
    2g.67gb     14   ~64.8 GB   60.4 GiB   24      68     3  0 2 4 (2)
    3g.135gb     9  ~129.7 GB  120.8 GiB   36     136     2  0 4 (4)
    4g.135gb     5  ~129.7 GB  120.8 GiB   49     136     1  0 (4)
    7g.269gb     0  ~259.5 GB  241.7 GiB   85     272     1  0 (8)
    ~ a cautious estimate: this memory has not been measured
    exit 0
    ");
    assert_snapshot!(run("profiles v100-16gb"), @r"
    v100-16gb: Tesla V100-SXM2-16GB, Tesla V100-PCIE-16GB, Tesla V100-DGXS-16GB, Tesla V100-FHHL-16GB, NVIDIA Tesla V100-SXM2-16GB, NVIDIA Tesla V100-PCIE-16GB
    16.9 GB (15.8 GiB), 80 SMs, 16 shards

    MIG: none. The GPU serves whole jobs and MPS shares, which can have 16.4 GB.
    exit 0
    ");
    assert_snapshot!(run("profiles rtx-pro-5000-48gb"), @r"
    rtx-pro-5000-48gb: NVIDIA RTX PRO 5000 Blackwell
    51.3 GB (47.8 GiB), 110 SMs, 48 shards

    MIG: its geometry is not known. The GPU serves whole jobs and MPS shares, which can have 50.0 GB.
    exit 0
    ");
    assert_snapshot!(run("profiles voodoo"), @r#"
    stderr: tessera: unknown GPU model "voodoo"
    stderr: hint: `tessera profiles` lists all models
    exit 1
    "#);
}
