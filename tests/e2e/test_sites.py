#!/usr/bin/env python3
"""test_sites: a network over several devices of a worker, the stand-ins of dense/cuda: what it learns, its report, its checkpoints, and the
ways to name the devices."""
from fleet import *

os.environ["SHOAL_CUDA_MODULE"] = "libshoal_cudahost.so"

PARTS = {"model.stages": 2, "model.split": 2, "model.split_above": 20, "train.micro_batches": 4}


def job(space, name, **more):
    keys = {"train.backend": "cuda", "model.hidden": [48, 40, 32], "train.consistency": "bsp", "train.lanes": 1, **more}
    return job_file(space / f"{name}.yaml", space / "train.tsv", **keys)


def learnt(report):
    return report["epochs"][-1]["train_logloss"]


def devices(report):
    """The devices that each worker told of: "0,1"."""
    return [re.search(r"\(devices? ([\d,]+)\)$", b["device"])[1] for b in report["backends"]]


@contextlib.contextmanager
def machine(count):
    """A machine with so many devices."""
    os.environ["SHOAL_CUDAHOST_DEVICES"] = str(count)
    try:
        yield
    finally:
        del os.environ["SHOAL_CUDAHOST_DEVICES"]


def a_network_in_parts_learns_what_the_whole_learns(space):
    synth(space / "train.tsv", 12000, 1)
    whole = run_job(job(space, "whole"), space / "whole")
    assert devices(whole) == ["0"] and "idle" not in whole, whole
    for name, keys in (("split", {"model.split": 4, "model.split_above": 20}), ("stages", {"model.stages": 2, "train.micro_batches": 8}), ("both", PARTS)):
        parts = run_job(job(space, name, **keys), space / name)
        print(f"      {name}: logloss {learnt(parts):.6f}, whole {learnt(whole):.6f}; idle {parts['idle']:.2f} on devices {devices(parts)[0]}", flush=True)
        assert abs(learnt(parts) - learnt(whole)) < 1e-4, (name, learnt(parts), learnt(whole))
        assert 0 < parts["idle"] < 1, parts["idle"]
        text = pathlib.Path(f"{space / name}.out").read_text(encoding="utf-8")
        assert f"devices        waited {100 * parts['idle']:.0f} % of their time for one another" in text, text
    two = run_job(job(space, "two", **{**PARTS, "train.lanes": 4}), space / "two", 1, 2)
    assert sorted(devices(two)) == ["0,1,2,3", "4,5,6,7"], two["backends"]


def bits_are_those_of_the_parts_on_any_number_of_devices(space):
    synth(space / "train.tsv", 12000, 1)
    one = job(space, "parts", **PARTS)
    seen = {}
    for count, told in ((4, "0,1,2,3"), (2, "0,1"), (1, "0")):
        with machine(count):
            report = run_job(one, space / f"on-{count}")
        assert devices(report) == [told], report["backends"]
        seen[count] = digests(report)
    assert seen[4] == seen[2] == seen[1], seen
    assert seen[1] != digests(run_job(job(space, "whole"), space / "whole")), "the parts add in another order"


def devices_of_a_worker_are_named_in_its_file_an_option_or_the_environment(space):
    synth(space / "train.tsv", 6000, 1)
    one = job(space, "parts", **PARTS)
    file = space / "worker.yaml"
    train = ["train", "--config", one]
    ways = ((["run", "--config", file], "devices: [2, 0]", "", "2,0"), (["run", "--config", file], "device: 3", "5", "3"),
            ([*train, "--devices", "1,0"], "", "5", "1,0"), ([*train, "--device", "17"], "", "", "1"), (train, "", "0,3", "0,3"), (train, "", "", "0"))
    seen = []
    for number, (words, line, variable, told) in enumerate(ways):
        with Fleet(space, f"f{number}", 1).up() as fleet:
            file.write_text(f"coordinator: {fleet.endpoint}\nlanes: 1\n{line}\n", encoding="utf-8")
            os.environ["SHOAL_DEVICE"] = variable
            try:
                fleet.start("w", *words, *([] if words[0] == "run" else ["--coordinator", fleet.endpoint]), program="shoal-worker")
            finally:
                del os.environ["SHOAL_DEVICE"]
            seen.append(ended(fleet, subprocess.Popen([SHOAL, "submit", one, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE,
                                                      stderr=subprocess.STDOUT, text=True)))
            assert devices(json.loads((space / "report.json").read_text(encoding="utf-8"))) == [told], (line, words, told)
    assert all(one == seen[0] for one in seen), seen
    for words, said in ((["--devices", "0,x"], '--devices: "0,x" is neither'), (["--device", "-1"], '--device: "-1" is neither'),
                        (["--device", "0", "--devices", "1"], "--devices and --device: give one of them")):
        got = subprocess.run([BIN / "shoal-worker", *map(str, train), *words], capture_output=True, text=True, timeout=20, check=False)
        assert got.returncode == 64 and said in got.stderr, got


def a_checkpoint_knows_nothing_of_parts(space):
    """Made in parts, it goes on whole, and the reverse: the same as going on as before, up to rounding. So do tables that another job begins with."""
    synth(space / "train.tsv", 12000, 1)
    names = (("whole", {}), ("parts", PARTS))
    for begun, keys in names:
        report = run_job(job(space, begun, **keys, **{"train.epochs": 2, "checkpoint.every_batches": 30, "checkpoint.keep": 0, "checkpoint.at_end": True}), space / begun)
        middle = sorted(path for path in (space / begun / "checkpoints").iterdir() if (path / "manifest.json").exists())[0]
        for name, others in names:
            again = run_job(job(space, f"{begun}-{name}", **others, **{"train.epochs": 2}), space / f"{begun}-{name}", 1, 1, ["--resume", str(middle)])
            assert abs(learnt(again) - learnt(report)) < 1e-4, (begun, name, learnt(again), learnt(report))
            assert (digests(again) == digests(report)) == (begun == name), (begun, name)
            assert (again["idle"] > 0 if name == "parts" else "idle" not in again), (begun, name)
    losses = [learnt(run_job(job(space, f"next-{name}", **keys), space / f"next-{name}", 1, 1, ["--start-from", str(space / "parts")])) for name, keys in names]
    assert abs(losses[0] - losses[1]) < 1e-4, losses


def a_network_in_parts_runs_on_the_cpu(space):
    """The plan of the parts, on a machine without devices: for a worker whose device was lost, and for scores."""
    synth(space / "train.tsv", 6000, 1)
    whole = run_job(job(space, "whole", **{"train.backend": "cpu"}), space / "whole")
    parts = run_job(job(space, "parts", **PARTS, **{"train.backend": "cpu"}), space / "parts")
    assert abs(learnt(parts) - learnt(whole)) < 1e-4 and "idle" not in parts, (learnt(parts), learnt(whole))
    scores = {}
    for name, keys in (("whole", ["model.stages=1", "model.split=1", "train.micro_batches=1"]), ("parts", [])):
        got = shoal("predict", "--from", space / "parts", "--in", space / "train.tsv", "--out", space / f"{name}.txt",
                    *[word for key in keys for word in ("--set", key)])
        assert got.returncode == 0, got
        scores[name] = [float(line.split()[-1]) for line in (space / f"{name}.txt").read_text().splitlines()[1:]]
    assert len(scores["parts"]) == 6000 and max(abs(a - b) for a, b in zip(scores["whole"], scores["parts"])) < 1e-5


def what_makes_no_sense_is_refused(space):
    synth(space / "train.tsv", 600, 1)
    tasks = {"model.kind": "mmoe", "model.top_k": 1}
    for keys, words in (({"train.micro_batches": 4}, "in one stage nothing overlaps; give it model.stages"),
                        ({"model.split": 2}, "no linear layer of this model has more than 1024 outputs (model.split_above), the widest has 48"),
                        ({"model.split": 2, "model.kind": "fm"}, "this model has no linear layer to split"),
                        ({"model.stages": 8, "model.split": 4, "model.split_above": 20}, "more than 16 devices"),
                        ({"model.stages": 9}, "model.stages is 9, but"),
                        ({**tasks, "model.stages": 2}, "model.top_k is 1, and a network over several devices computes all experts")):
        shutil.rmtree(space / "refused", ignore_errors=True)
        run = Run(job(space, "refused", **keys), space / "refused")
        assert run.wait() == 78 and words in run.output(), (keys, run.output())


if __name__ == "__main__":
    main([what_makes_no_sense_is_refused, a_network_in_parts_learns_what_the_whole_learns, bits_are_those_of_the_parts_on_any_number_of_devices,
          devices_of_a_worker_are_named_in_its_file_an_option_or_the_environment, a_checkpoint_knows_nothing_of_parts,
          a_network_in_parts_runs_on_the_cpu])
