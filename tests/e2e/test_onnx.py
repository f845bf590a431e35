#!/usr/bin/env python3
"""test_onnx: `shoal export --onnx` of each model of the zoo gives the scores of `shoal predict`, within 1e-5. Inputs are made as a service makes them: rows
from the export of the same folder, keys by the formula of deploy/manual/run.md, and what is said in the file itself; onnx_file evaluates. With python3-onnx
its checker reads each file, and its reference evaluator, where it has one, computes it too."""
import array
import json
import math
import random
import types

from exports import arrays_of, told_of
from lib import *
from onnx_file import Model, Tensor
from test_export_scores import key_of, xxh3_64
from test_predict import lines_of, shoal

try:
    import numpy
except ImportError:
    numpy = None
try:
    import onnx
except ImportError:
    onnx = None
try:
    from onnx.reference import ReferenceEvaluator
except ImportError:
    ReferenceEvaluator = None

ROWS, SCORED = 1600, 60
NAMES = ["click", "minutes", "user", "item", "city", "tags", "history", "price", "age"]
COLUMNS = [{"name": "tags", "type": "multi", "pooling": "mean"}, {"name": "price", "type": "number", "transform": "log1p"},
           {"name": "age", "type": "number", "transform": "standard"}]
OTHERS = [{"name": "user", "id": True}, {"name": "tags", "type": "multi", "pooling": "mean", "weighted": True},
          {"name": "price", "type": "number", "transform": "standard"}, {"name": "age", "type": "number", "indicator": True, "fill": 40, "transform": "log1p"}]
SKIPPED = [{"name": "minutes", "type": "skip"}, {"name": "history", "type": "skip"}]
SEQUENCE = COLUMNS + [{"name": "minutes", "type": "skip"}, {"name": "item"},
                      {"name": "history", "type": "multi", "share": "item", "pooling": "attention", "attend": "item", "max": 5}]
SMALL = {"tables[1].name": "small", "tables[1].dim": 3, "tables[1].fields": ["city", "tags"], "tables[1].optimizer.kind": "adagrad",
         "tables[1].optimizer.lr": 0.05}
TASKS = {"data.label": ["click", "minutes"], "model.loss": ["logloss", "mse"], "model.tower": [5]}
TWO = COLUMNS + [{"name": "history", "type": "skip"}]


def log_write(path, rows, seed, plain=True):
    """Clicks that depend on all columns; some cells are empty, some values of the scored rows are new. Else users are numbers and tags have weights."""
    rng, lines = random.Random(seed), [",".join(NAMES)]
    for _ in range(rows):
        user, item, city = rng.randrange(30 + 5 * seed), rng.randrange(20 + 5 * seed), rng.randrange(6)
        tags = [rng.randrange(9) for _ in range(rng.randrange(4))]
        history = [rng.randrange(20 + 5 * seed) for _ in range(rng.randrange(8))]
        price, age = rng.expovariate(0.05), rng.gauss(40, 12)
        z = (user % 3 - 1) + (item % 4 - 1.5) / 2 + len(tags) / 3 + (item in history) + math.log1p(price) / 3 - 1.5
        click = int(rng.random() < 1 / (1 + math.exp(-z)))
        weights = [f":{rng.uniform(-1, 2):.2f}" if not plain else "" for _ in tags]
        lines.append(",".join([str(click), f"{z + 1:.3f}", f"u{user}" if plain else str(user), f"i{item}", f"c{city}" if rng.random() < 0.9 else "",
                               "|".join(f"t{t}{w}" for t, w in zip(tags, weights, strict=True)), "|".join(f"i{i}" for i in history), f"{price:.2f}", f"{age:.1f}" if rng.random() < 0.9 else ""]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained(space, name, **over):
    columns, plain = over.pop("columns", COLUMNS + SKIPPED), over.pop("plain", True)
    train, test = log_write(space / "train.csv", ROWS, 1, plain), log_write(space / "test.csv", SCORED, 2, plain)
    job = job_file(space / f"{name}.yaml", train, **{
        "job": name, "data.format": "csv", "data.label": "click", "data.columns": columns, "tables[0].init": {"kind": "uniform", "scale": 0.3, "seed": 1},
        "train.epochs": 2, "dense_optimizer.lr": 0.02, "model.hidden": [7, 5], **over})
    run_job(job, space / name)
    shoal("predict", "--from", space / name, "--in", test, "--out", space / f"{name}.csv")
    shoal("export", space / name, "--format", "safetensors", "--onnx", "--out", space / f"{name}-out")
    return Model(space / f"{name}-out/model.onnx"), test


# ---- a service ------------------------------------------------------------------------------------------------------


class Service:
    """Looks up rows and makes the inputs of examples, from the folder of an export alone."""

    def __init__(self, folder, model):
        self.model, found = model, arrays_of(folder)
        self.fields, self.numbers = (json.loads(model.notes[f"shoal.{part}"]) for part in ("fields", "numbers"))
        self.rows = {}
        for table in told_of(folder)["tables"]:
            name, columns = table["name"], []
            for column in ("first", "vectors"):
                count = table["dim"] if column == "vectors" else 1
                made = [array.array("f", row) for row in found[f"{name}.{column}"].rows()] if f"{name}.{column}" in found else None
                columns.append((made, count))
            keys = found[f"{name}.keys"].values()
            self.rows[name] = {key: [c[i] if c is not None else None for c, _ in columns] for i, key in enumerate(keys)}

    def looked_up(self, field, cell, part, width):
        """The vectors (part 1) or first-order weights (0) of a cell's values, with the values' weights; a value without a row is zeros."""
        kind, found = field["kind"].split(",")[0].split(), []
        values = [cell] if kind[0] != "multi" else cell.split("|") if cell else []
        for value in values[-field["last"]:] if "last" in field else values:
            value, _, weight = value.rpartition(":") if "weighted" in kind else (value, "", "1")
            key = field["number"] << 48 | int(value) if "id" in kind else key_of(field["number"], value.encode())
            row = self.rows[field["table"]].get(key)
            found.append((row[part] if row else [0.0] * width, float(weight)))
        return found

    @staticmethod
    def pooled(field, found, width):
        total, weights = [sum(v[d] * w for v, w in found) for d in range(width)], sum(abs(w) for _, w in found)
        return [x / weights for x in total] if field["pooling"] == "mean" and weights > 0 else total

    @staticmethod
    def number(told, row):
        rule, _, fill = told["kind"].partition(", fill ")
        if rule == "number missing":
            return float(row[told["name"].removeprefix("missing ")] == "")
        cell, rule = row[told["name"]] or fill, rule.split()[1:]
        if cell == "":
            return 0.0
        x = float(cell)
        if rule[:1] == ["standard"]:
            _, mean, deviation = told["figures"].split()
            return (x - float(mean)) / float(deviation)
        return math.copysign(math.log1p(abs(x)), x) if rule[:1] == ["log1p"] else x

    def fed(self, rows):
        """The inputs of examples, {name: Tensor}."""
        out, batch = {}, len(rows)
        for field in self.fields:
            cells = [row[field["name"]] for row in rows]
            if field["pooling"] == "attention":
                vectors = [[v for v, _ in self.looked_up(field, c, 1, field["dim"])] for c in cells]
                length = max(map(len, vectors))
                flat = [x for v in vectors for x in [y for w in v for y in w] + [0.0] * (length - len(v)) * field["dim"]]
                out[field["input"]] = Tensor((batch, length, field["dim"]), flat)
                continue
            for member, part, width in (("input", 1, field.get("dim")), ("first", 0, 1)):
                if member in field:
                    out[field[member]] = Tensor((batch, width), [x for c in cells for x in self.pooled(field, self.looked_up(field, c, part, width), width)])
        for told in self.numbers:
            out[told["input"]] = Tensor((batch, 1), [self.number(told, row) for row in rows])
        return out


def rows_of(test):
    names, *lines = [line.split(",") for line in lines_of(test)]
    return [dict(zip(names, line, strict=True)) for line in lines]


def predicted(space, name):
    """{output: scores} of `shoal predict`."""
    names, *lines = [line.split(",") for line in lines_of(space / f"{name}.csv")]
    return {column: [float(line[i]) for line in lines] for i, column in enumerate(names)}


def apart(scores, wanted):
    assert sorted(scores) == sorted(wanted), (sorted(scores), sorted(wanted))
    assert all(scores[name].shape == (len(wanted[name]),) for name in wanted)
    return max(abs(a - b) for name in wanted for a, b in zip(scores[name].data, wanted[name], strict=True))


def library_agrees(path, fed, wanted):
    """What python3-onnx says, where it is there."""
    if onnx is None:
        return "python3-onnx is not here"
    model = onnx.load(str(path))
    onnx.checker.check_model(model, full_check=True)
    if ReferenceEvaluator is None:
        return f"onnx {onnx.__version__} checks it"
    got = ReferenceEvaluator(model).run(None, {name: numpy.array(t.data, dtype=numpy.float32).reshape(t.shape) for name, t in fed.items()})
    worst = max(float(numpy.abs(g - numpy.array(wanted[o.name])).max()) for g, o in zip(got, model.graph.output, strict=True))
    assert worst < 1e-5, worst
    return f"onnx {onnx.__version__} checks it and computes it, {worst:.2g} apart"


def agrees(space, name, **over):
    """Trains, exports, and compares; returns the model."""
    model, test = trained(space, name, **over)
    rows, wanted, folder = rows_of(test), predicted(space, name), space / f"{name}-out"
    fed = Service(folder, model).fed(rows)
    worst = apart(model.run(fed), wanted)
    print(f"      {name}: {len(model.nodes)} operators, {worst:.2g} at most between; {library_agrees(folder / 'model.onnx', fed, wanted)}", flush=True)
    assert worst < 1e-5, worst
    assert all(max(v) - min(v) > 1e-3 for v in wanted.values()), "the scores say nothing"
    assert told_of(folder)["onnx"] == "model.onnx" and model.notes["shoal.model"] == over.get("model.kind")
    for weight in model.weights:  # the rest are constants of operators
        assert weight.startswith(("dense.", "dense_stats.", "numbers.")), weight
    return model, fed, wanted


# ---- the models -----------------------------------------------------------------------------------------------------


def sums_and_pairs(space):
    lr, _, _ = agrees(space, "lr", **{"model.kind": "lr"})
    assert sorted(lr.inputs) == ["age.number", "city.first", "item.first", "price.number", "tags.first", "user.first"], lr.inputs
    assert lr.outputs == {"score": ("batch",)}
    agrees(space, "fm", **{"model.kind": "fm"})
    agrees(space, "fwfm", **{"model.kind": "fwfm"})
    agrees(space, "ipnn", **{"model.kind": "ipnn", "model.norm": "layer", "model.activation": "tanh"})


def networks(space):
    model, _, _ = agrees(space, "wide_deep", **{"model.kind": "wide_deep", "model.norm": "batch", "model.dropout": 0.2, **SMALL})
    assert model.inputs["user.vector"] == ("batch", 4) and model.inputs["city.vector"] == ("batch", 3) and model.inputs["city.first"] == ("batch", 1)
    assert "dense_stats.hidden.0.mean" in model.weights and "mean" in model.about["tags.vector"]
    agrees(space, "deepfm", **{"model.kind": "deepfm", "data.negatives": 0.5, "model.dropout": 0.3, "model.norm": "layer"})
    agrees(space, "dlrm", **{"model.kind": "dlrm", "model.bottom": [6]})
    agrees(space, "dlrm_cat", **{"model.kind": "dlrm", "model.interaction": "cat", "model.norm": "batch", **SMALL})


def columns_of_other_kinds(space):
    model, _, _ = agrees(space, "others", **{"model.kind": "deepfm", "columns": OTHERS + SKIPPED, "plain": False, "tables[0].values": "bf16",
                                             "features.fields": ["user", "item", "city", "tags", "price", "age"]})
    assert "missing age.number" in model.inputs, model.inputs


def crosses_and_streams(space):
    agrees(space, "dcnv2", **{"model.kind": "dcnv2", "model.cross_layers": 3, "model.norm": "batch", **SMALL})
    agrees(space, "xdeepfm", **{"model.kind": "xdeepfm", "model.cin": [6, 4]})
    gated = {"model.kind": "finalmlp", "model.hidden2": [6], "model.heads": 1}
    agrees(space, "finalmlp", **{**gated, "model.gate_hidden": [5], "model.activation": "sigmoid"})
    agrees(space, "finalmlp_fields", **{**gated, "model.gate_hidden": [5], "model.gate_fields": ["user", "item"], "model.hidden": [8, 6], "model.heads": 2,
                                        "model.norm": "layer"})


def attention(space):
    agrees(space, "autoint", **{"model.kind": "autoint", "model.attention_dim": 4, "model.attention_layers": 2})
    agrees(space, "autoint_wide", **{"model.kind": "autoint", "model.attention_dim": 6, "model.heads": 3, "model.attention_layers": 2, "model.norm": "batch"})
    din, _, _ = agrees(space, "din", **{"model.kind": "din", "columns": SEQUENCE, "model.attention_hidden": [6, 4]})
    assert din.inputs["history.vectors"] == ("batch", "history.vectors.length", 4), din.inputs


def tasks_and_experts(space):
    own = {**TASKS, "columns": TWO, "model.experts": 3, "model.hidden": [6]}
    model, _, _ = agrees(space, "mmoe", **{"model.kind": "mmoe", **own, "model.norm": "batch"})
    assert sorted(model.outputs) == ["score_click", "score_minutes"]
    agrees(space, "mmoe_top", **{"model.kind": "mmoe", **own, "model.top_k": 2, "model.balance": 0.01, **SMALL})
    agrees(space, "ple", **{"model.kind": "ple", **own, "model.levels": 2, "model.own_experts": 2, "model.norm": "layer", "model.hidden": [6, 4]})
    agrees(space, "ple_top", **{"model.kind": "ple", **own, "model.levels": 2, "model.top_k": 2, "model.norm": "batch", "model.dropout": 0.1})


# ---- the file -------------------------------------------------------------------------------------------------------


def an_error_in_the_inputs_or_the_graph_is_seen(space):
    """The control: what this test compares differs by more than 1e-5 after each small fault."""
    model, fed, wanted = agrees(space, "dcnv2", **{"model.kind": "dcnv2", "model.cross_layers": 2})
    swapped = {**fed, "user.vector": fed["item.vector"], "item.vector": fed["user.vector"]}
    assert apart(model.run(swapped), wanted) > 1e-5
    for op in sorted({n.op for n in model.nodes if n.op in ("Sub", "Add", "Mul", "Relu", "Gemm", "Concat")}):
        for node in [n for n in model.nodes if n.op == op]:
            was = node.op, list(node.ins)
            if op == "Concat":
                node.ins.reverse()
            elif op == "Gemm":
                node.ins = node.ins[:1] + [node.ins[1]] if len(node.ins) == 2 else node.ins[:2]
                model.weights[node.ins[1]].data = [-x for x in model.weights[node.ins[1]].data]
            else:
                node.op = {"Add": "Sub", "Mul": "Add", "Relu": "Tanh", "Sub": "Add"}[op]
            assert apart(model.run(fed), wanted) > 1e-5, (op, was)
            if op == "Gemm":
                model.weights[node.ins[1]].data = [-x for x in model.weights[node.ins[1]].data]
            node.op, node.ins = was
    assert apart(model.run(fed), wanted) < 1e-5


class Session:
    """As much of onnxruntime.InferenceSession as the manual's service uses, over onnx_file."""

    def __init__(self, path):
        self.model, self.custom_metadata_map = Model(path), Model(path).notes

    def get_modelmeta(self):
        return self

    def run(self, names, feed):
        assert all(x.dtype == numpy.float32 for x in feed.values()), {name: x.dtype for name, x in feed.items()}
        made = self.model.run({name: Tensor(x.shape, map(float, x.ravel())) for name, x in feed.items()})
        return [made[name].data for name in names]


def the_service_of_the_manual_scores(space):
    """Its lines as they stand in deploy/manual/export.md, with onnxruntime and xxhash played."""
    if numpy is None:
        raise Skip("numpy is not here")
    page = (pathlib.Path(__file__).parents[2] / "deploy/manual/export.md").read_text(encoding="utf-8")
    [text] = [block.partition("```")[0] for block in page.split("```python\n")[1:] if "onnxruntime" in block.partition("```")[0]]
    columns = [{"name": name, "type": "skip"} for name in ("minutes", "city", "tags", "history", "age")]
    columns += [{"name": "price", "type": "number", "transform": "log1p"}]
    _, test = trained(space, "manual", **{"model.kind": "dcnv2", "columns": columns})
    shoal("export", space / "manual", "--onnx", "--out", space / "out")
    sys.modules.update({"onnxruntime": types.SimpleNamespace(InferenceSession=Session), "xxhash": types.SimpleNamespace(xxh3_64_intdigest=xxh3_64)})
    page_names = {}
    exec(compile(text.replace('"out/', f'"{space / "out"}/'), "export.md", "exec"), page_names)  # noqa: S102 - our own page
    rows = [{**row, "price": float(row["price"])} for row in rows_of(test)]
    worst = max(abs(a - b) for a, b in zip(page_names["scores"](rows), predicted(space, "manual")["score"], strict=True))
    assert worst < 1e-5, worst


def equal_exports_are_equal_files(space):
    """One model from a run, from a checkpoint of it, and in a folder with one table alone; the input may be gone."""
    agrees(space, "fm", **{"model.kind": "fm", "checkpoint.at_end": True})
    whole = (space / "fm-out/model.onnx").read_bytes()
    [made] = [p for p in (space / "fm/checkpoints").iterdir() if (p / "manifest.json").exists()]
    (space / "train.csv").unlink()
    said = shoal("export", made, "dense", "--onnx", "--out", space / "again").stdout
    assert "the network as model.onnx" in said and sorted(p.suffix for p in (space / "again").iterdir()) == [".json", ".npy", ".npy", ".onnx"], said
    assert (space / "again/model.onnx").read_bytes() == whole
    assert "onnx" in told_of(space / "again") and arrays_of(space / "again")


def what_is_no_network_is_refused(space):
    train = log_write(space / "train.csv", 200, 1)
    probe = job_file(space / "probe.yaml", train, **{"data.format": "csv", "data.label": "click", "model.kind": "probe", "data.columns": COLUMNS + SKIPPED})
    run_job(probe, space / "probe")
    said = shoal("export", space / "probe", "--onnx", "--out", space / "none", status=78).stderr
    assert "model.kind probe has no scores" in said and not (space / "none").exists() and not (space / "none.tmp").exists(), said


if __name__ == "__main__":
    main([sums_and_pairs, networks, columns_of_other_kinds, crosses_and_streams, attention, tasks_and_experts, an_error_in_the_inputs_or_the_graph_is_seen,
          the_service_of_the_manual_scores, equal_exports_are_equal_files, what_is_no_network_is_refused])
