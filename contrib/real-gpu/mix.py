"""A mix of CASE's evaluation (Table 2) as jobs of one user, and how long they take by the way they ask for GPUs.

It submits to the Slurm that `sbatch` finds, with a processor for each job, and prints a table. PROGRAMS has FAMILY-plain and
FAMILY-pass for each of Rodinia's seven: compiled by clang alone, and by tessera-clang++. docs/real-gpu.md says how.
"""
import argparse
import csv
import pathlib
import random
import shlex
import subprocess
import time

DATA = pathlib.Path(__file__).resolve().parents[2] / "crates/study/case-study/data"
WAYS = {
    "whole": ("plain", lambda mib: ["--gpus=1"]),
    "tasks": ("pass", lambda mib: ["--gpu-isolation=gpu-tasks"]),
    "declared": ("plain", lambda mib: ["--gpu-isolation=gpu-tasks", f"--gpu-mem={mib + 100}M"]),
    "mps": ("plain", lambda mib: ["--gpu-isolation=mps", f"--gpu-mem={mib + 700}M"]),
}
JOB = """#!/bin/sh
cd {place}/cuda/srad/program && s=$(date +%s.%N)
{command} > {place}/out 2>&1 < /dev/null; r=$?
echo $s $(date +%s.%N) $r > {place}/times
"""


def rows(name):
    with open(DATA / name, newline="") as file:
        return list(csv.DictReader(file))


def graph(path, nodes):
    """Writes a random graph in Rodinia's form, six edges for each node."""
    draw = random.Random(1).randrange
    with open(path, "w") as file:
        file.write(f"{nodes}\n")
        file.writelines(f"{node * 6} 6\n" for node in range(nodes))
        file.write(f"\n0\n\n{nodes * 6}\n")
        file.writelines(f"{draw(nodes)} {draw(1, 11)}\n" for _ in range(nodes * 6))


def inputs(place, shared):
    """Makes the files that the programs read. Rodinia's and CASE's copies look for them in different places."""
    here = place / "cuda/srad/program"
    for part in (here / "data/bfs/inputGen", here / "data/dwt2d", place / "data/srad", place / "cuda/data/dwt2d/data/dwt2d"):
        part.mkdir(parents=True)
    (here / "data/bfs/inputGen/graph32M.txt").symlink_to(shared)
    pixels = " ".join(str(n * 7 % 251) for n in range(458 * 502))
    (place / "data/srad/image.pgm").write_text(f"P2\n458 502\n255\n{pixels}\n")
    for part in (here / "data/dwt2d", place / "cuda/data/dwt2d/data/dwt2d"):
        (part / "rgb.bmp").write_bytes(random.Random(2).randbytes(3 * 256 * 256))


def submit(way, number, job, options, shared):
    variant, gpu = WAYS[way]
    place = options.scratch / f"{way}-{number}"
    inputs(place, shared)
    program = options.programs / f"{job['family']}-{variant}"
    mib = -(-int(job["mem_bytes"]) // 10**6)
    command = f"{shlex.quote(str(program))} {job['args']}"
    script = JOB.format(place=shlex.quote(str(place)), command=command)
    call = ["sbatch", "--parsable", "-c1", "-o", str(place / "slurm.out"), *gpu(mib)]
    subprocess.run(call, input=script, text=True, check=True, stdout=subprocess.PIPE)
    return place


def run(way, jobs, options, shared):
    start = time.time()
    places = [submit(way, number, job, options, shared) for number, job in enumerate(jobs)]
    end = start + options.minutes * 60
    while time.time() < end and not all((place / "times").exists() for place in places):
        time.sleep(0.5)
    ended = []
    for job, place in zip(jobs, places):
        if not (place / "times").exists():
            print(f"{way}: {job['id']} has not ended; see {place / 'slurm.out'}")
            continue
        began, over, status = (place / "times").read_text().split()
        ended.append((float(began), float(over)))
        if status != "0":
            print(f"{way}: {job['id']} failed with {status}; see {place / 'out'}")
    if ended:
        last = max(over for _, over in ended) - start
        mean = sum(over - start for _, over in ended) / len(ended)
        took = sum(over - began for began, over in ended) / len(ended)
        print(f"| {way} | {len(ended)} of {len(jobs)} | {last:.1f} | {mean:.1f} | {took:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, required=True, help="a new directory that all nodes see")
    parser.add_argument("--mix", default="W1", help="W1 to W8")
    parser.add_argument("--ways", default="whole,tasks,declared", help=f"some of {','.join(WAYS)}")
    parser.add_argument("--graph-nodes", type=int, default=32 << 20, help="of bfs; 32 Mi as in the paper")
    parser.add_argument("--minutes", type=float, default=30, help="wait at most this long for each way")
    options = parser.parse_args()
    ways = options.ways.split(",")
    if unknown := [way for way in ways if way not in WAYS]:
        parser.error(f"no way {unknown[0]}; there are {', '.join(WAYS)}")
    commands = {row["id"]: row for row in rows("rodinia.csv")}
    jobs = [commands[row["id"]] for row in rows("mixes.csv") if row["mix"] == options.mix]
    if not jobs:
        parser.error(f"no mix {options.mix}")
    options.programs, options.scratch = options.programs.resolve(), options.scratch.resolve()
    options.scratch.mkdir(parents=True)
    shared = options.scratch / "graph.txt"
    graph(shared, options.graph_nodes)
    print("| way | ended | all after, s | mean until the end, s | mean run, s |\n|---|---|---|---|---|", flush=True)
    for way in ways:
        run(way, jobs, options, shared)


if __name__ == "__main__":
    main()
