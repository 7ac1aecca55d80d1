//! `tessera free`.

use insta::assert_snapshot;

use super::Site;

#[test]
fn what_could_start_now() {
    let site = Site::new();
    let free = |args: &str| {
        let words: Vec<&str> =
            ["free", "--from", "layout"].into_iter().chain(args.split_whitespace()).collect();
        site.run(&words)
    };
    assert_snapshot!(free(""), @r"
    SHAPE             MEMORY  SMs                     NOW  WHERE         ASK FOR ONE WITH
    1g.5gb            5.1 GB  14 of 108                28  n1 28         --gpu-isolation=mig:1g.5gb
    1g.10gb          10.3 GB  14 of 108 or 16 of 132   22  n2 7, n1 15   --gpu-isolation=mig:1g.10gb
    2g.10gb          10.3 GB  28 of 108                11  n1 11         --gpu-isolation=mig:2g.10gb
    1g.20gb          21.1 GB  26 of 132                 4  n2 4          --gpu-isolation=mig:1g.20gb
    2g.20gb          21.1 GB  32 of 132                 3  n2 3          --gpu-isolation=mig:2g.20gb
    3g.20gb          20.9 GB  42 of 108                 7  n1 7          --gpu-isolation=mig:3g.20gb
    4g.20gb          20.9 GB  56 of 108                 3  n1 3          --gpu-isolation=mig:4g.20gb
    3g.40gb          42.4 GB  60 of 132                 2  n2 2          --gpu-isolation=mig:3g.40gb
    4g.40gb          42.4 GB  64 of 132                 1  n2 1          --gpu-isolation=mig:4g.40gb
    7g.40gb          42.1 GB  98 of 108                 3  n1 3          --gpu-isolation=mig:7g.40gb
    7g.80gb          85.1 GB  all 132                   1  n2 1          --gpu-isolation=mig:7g.80gb
    share of 5.0 GB   5.0 GB  shared                   62  n1 39, n2 23  --gpu-isolation=mps --gpu-mem=5G
    1 GPU                  -  all                       4  n2 1, n1 3    --gpu-isolation=whole --gpus-per-node=1
    2 GPUs                 -  all                       1  n1 1          --gpu-isolation=whole --gpus-per-node=2
    4 GPUs                 -  all                       0  -             --gpu-isolation=whole --gpus-per-node=4
    8 GPUs                 -  all                       0  -             --gpu-isolation=whole --gpus-per-node=8

    --gpu-mem=SIZE alone takes the one with SIZE that leaves most of a GPU to other jobs.
    exit 0
    ");
    assert_snapshot!(free("--gpu-mem 20G"), @r"
    SHAPE              MEMORY  SMs        NOW  WHERE       ASK FOR ONE WITH
    1g.20gb           21.1 GB  26 of 132    4  n2 4        --gpu-isolation=mig:1g.20gb
    2g.20gb           21.1 GB  32 of 132    3  n2 3        --gpu-isolation=mig:2g.20gb
    3g.20gb           20.9 GB  42 of 108    7  n1 7        --gpu-isolation=mig:3g.20gb
    4g.20gb           20.9 GB  56 of 108    3  n1 3        --gpu-isolation=mig:4g.20gb
    3g.40gb           42.4 GB  60 of 132    2  n2 2        --gpu-isolation=mig:3g.40gb
    4g.40gb           42.4 GB  64 of 132    1  n2 1        --gpu-isolation=mig:4g.40gb
    7g.40gb           42.1 GB  98 of 108    3  n1 3        --gpu-isolation=mig:7g.40gb
    7g.80gb           85.1 GB  all 132      1  n2 1        --gpu-isolation=mig:7g.80gb
    share of 20.0 GB  20.0 GB  shared      13  n1 8, n2 5  --gpu-isolation=mps --gpu-mem=20G
    1 GPU                   -  all          4  n2 1, n1 3  --gpu-isolation=whole --gpus-per-node=1 --gpu-mem=20G
    2 GPUs                  -  all          1  n1 1        --gpu-isolation=whole --gpus-per-node=2 --gpu-mem=20G
    4 GPUs                  -  all          0  -           --gpu-isolation=whole --gpus-per-node=4 --gpu-mem=20G
    8 GPUs                  -  all          0  -           --gpu-isolation=whole --gpus-per-node=8 --gpu-mem=20G

    --gpu-mem=SIZE alone takes the one with SIZE that leaves most of a GPU to other jobs.
    exit 0
    ");
    assert_snapshot!(free("--partition debug"), @r"
    SHAPE            MEMORY  SMs     NOW  WHERE         ASK FOR ONE WITH
    share of 5.0 GB  5.0 GB  shared   62  n1 39, n2 23  --gpu-isolation=mps --gpu-mem=5G

    --gpu-mem=SIZE alone takes the one with SIZE that leaves most of a GPU to other jobs.

    Refused:
      1g.5gb: --gpu-isolation=mig:1g.5gb is not allowed in partition debug: use mps, whole
      1g.10gb: --gpu-isolation=mig:1g.10gb is not allowed in partition debug: use mps, whole
      2g.10gb: --gpu-isolation=mig:2g.10gb is not allowed in partition debug: use mps, whole
      1g.20gb: --gpu-isolation=mig:1g.20gb is not allowed in partition debug: use mps, whole
      2g.20gb: --gpu-isolation=mig:2g.20gb is not allowed in partition debug: use mps, whole
      3g.20gb: --gpu-isolation=mig:3g.20gb is not allowed in partition debug: use mps, whole
      4g.20gb: --gpu-isolation=mig:4g.20gb is not allowed in partition debug: use mps, whole
      3g.40gb: --gpu-isolation=mig:3g.40gb is not allowed in partition debug: use mps, whole
      4g.40gb: --gpu-isolation=mig:4g.40gb is not allowed in partition debug: use mps, whole
      7g.40gb: --gpu-isolation=mig:7g.40gb is not allowed in partition debug: use mps, whole
      7g.80gb: --gpu-isolation=mig:7g.80gb is not allowed in partition debug: use mps, whole
      1 GPU: a whole GPU (h100-80gb-sxm, 80.0 GB) is too much in partition debug: at most 20.0 GB
      2 GPUs: a whole GPU (h100-80gb-sxm, 80.0 GB) is too much in partition debug: at most 20.0 GB
      4 GPUs: a whole GPU (h100-80gb-sxm, 80.0 GB) is too much in partition debug: at most 20.0 GB
      8 GPUs: a whole GPU (h100-80gb-sxm, 80.0 GB) is too much in partition debug: at most 20.0 GB
    exit 0
    ");
    assert_snapshot!(free("--node n2 --json"), @r#"
    {
      "left_to_slurm": [],
      "not_taking_jobs": [],
      "partitions": [],
      "reserved": [],
      "shapes": [
        {
          "memory_mib": 9984,
          "nodes": [
            {
              "node": "n2",
              "now": 7
            }
          ],
          "now": 7,
          "options": "--gpu-isolation=mig:1g.10gb",
          "shape": "1g.10gb",
          "sms": [
            {
              "of": 132,
              "sms": 16
            }
          ]
        },
        {
          "memory_mib": 20096,
          "nodes": [
            {
              "node": "n2",
              "now": 4
            }
          ],
          "now": 4,
          "options": "--gpu-isolation=mig:1g.20gb",
          "shape": "1g.20gb",
          "sms": [
            {
              "of": 132,
              "sms": 26
            }
          ]
        },
        {
          "memory_mib": 20096,
          "nodes": [
            {
              "node": "n2",
              "now": 3
            }
          ],
          "now": 3,
          "options": "--gpu-isolation=mig:2g.20gb",
          "shape": "2g.20gb",
          "sms": [
            {
              "of": 132,
              "sms": 32
            }
          ]
        },
        {
          "memory_mib": 40448,
          "nodes": [
            {
              "node": "n2",
              "now": 2
            }
          ],
          "now": 2,
          "options": "--gpu-isolation=mig:3g.40gb",
          "shape": "3g.40gb",
          "sms": [
            {
              "of": 132,
              "sms": 60
            }
          ]
        },
        {
          "memory_mib": 40448,
          "nodes": [
            {
              "node": "n2",
              "now": 1
            }
          ],
          "now": 1,
          "options": "--gpu-isolation=mig:4g.40gb",
          "shape": "4g.40gb",
          "sms": [
            {
              "of": 132,
              "sms": 64
            }
          ]
        },
        {
          "memory_mib": 81152,
          "nodes": [
            {
              "node": "n2",
              "now": 1
            }
          ],
          "now": 1,
          "options": "--gpu-isolation=mig:7g.80gb",
          "shape": "7g.80gb",
          "sms": [
            {
              "of": 132,
              "sms": 132
            }
          ]
        },
        {
          "memory_mib": 4769,
          "nodes": [
            {
              "node": "n2",
              "now": 23
            }
          ],
          "now": 23,
          "options": "--gpu-isolation=mps --gpu-mem=5G",
          "shape": "share of 5.0 GB",
          "sms": []
        },
        {
          "memory_mib": 81152,
          "nodes": [
            {
              "node": "n2",
              "now": 1
            }
          ],
          "now": 1,
          "options": "--gpu-isolation=whole --gpus-per-node=1",
          "shape": "1 GPU",
          "sms": [
            {
              "of": 132,
              "sms": 132
            }
          ]
        },
        {
          "memory_mib": 81152,
          "nodes": [],
          "now": 0,
          "options": "--gpu-isolation=whole --gpus-per-node=2",
          "shape": "2 GPUs",
          "sms": [
            {
              "of": 132,
              "sms": 132
            }
          ]
        }
      ]
    }
    exit 0
    "#);
    assert_snapshot!(free("--node n9"), @r"
    stderr: tessera: node n9 is not in tessera.toml
    stderr: hint: there are n1, n2
    exit 1
    ");
    assert_snapshot!(free("--gpu-mem 20Q"), @r"
    stderr: error: invalid value '20Q' for '--gpu-mem <SIZE>': has an unknown suffix: use K, M, G, T or Ki, Mi, Gi, Ti
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
}

#[test]
fn without_slurm() {
    assert_snapshot!(Site::new().run(&["free"]), @r"
    stderr: tessera: cannot run `scontrol -a show nodes`: No such file or directory (os error 2)
    stderr: hint: is Slurm installed here?
    exit 1
    ");
}
