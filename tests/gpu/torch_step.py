#!/usr/bin/env python3
"""torch_step: the training step of tests/gpu/step.c in PyTorch, on the same shapes: rows gathered by index, layers, loss, gradients of
the network and of the rows; no optimizer, as the servers have it.

    torch_step.py --kind deepfm [--device cuda] [--batch 16384] [--rows 150000] [--ready-seconds 110]

makes every variant ready: eager, compiled (torch.compile) and graphs (mode="reduce-overhead": compiled, with CUDA graphs), each in
fp32, with tf32 products and in bf16 (autocast), and says so with a line of JSON for each, or what went wrong with it: after
--ready-seconds nothing more is begun. Then it reads lines `PRECISION VARIANT SECONDS` and answers each with a line: the milliseconds of
a step."""
import argparse
import contextlib
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

FIELDS, DIM, NUMERICS, WINDOWS = 26, 16, 13, 11
PRECISIONS = ["fp32", "tf32", "bf16"]
VARIANTS = {"eager": None, "compiled": {}, "graphs": {"mode": "reduce-overhead"}}


def network(widths, last_act=True):
    layers = []
    for before, width in zip(widths, widths[1:]):
        layers += [nn.Linear(before, width), nn.ReLU()]
    return nn.Sequential(*(layers if last_act else layers[:-1]))


class DeepFM(nn.Module):
    first_order = 1

    def __init__(self):
        super().__init__()
        self.network = network([FIELDS * DIM + NUMERICS, 400, 400, 400, 1], last_act=False)
        self.linear = nn.Linear(NUMERICS, 1)

    def forward(self, rows, index, numbers):
        e = F.embedding(index, rows)
        weights, v = e[..., 0], e[..., 1:]
        total = v.sum(1)
        pairs = 0.5 * (total.square().sum(1) - v.square().sum((1, 2)))
        x = torch.cat([v.flatten(1), numbers], 1)
        return weights.sum(1) + pairs + self.linear(numbers).squeeze(1) + self.network(x).squeeze(1)


class DCNv2(nn.Module):
    first_order = 0

    def __init__(self):
        super().__init__()
        width = FIELDS * DIM + NUMERICS
        self.cross = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.network = network([width, 400, 400, 400])
        self.head = nn.Linear(width + 400, 1)

    def forward(self, rows, index, numbers):
        x = torch.cat([F.embedding(index, rows).flatten(1), numbers], 1)
        y = x
        for layer in self.cross:
            y = torch.addcmul(y, x, layer(y).to(y.dtype))
        return self.head(torch.cat([y, self.network(x).to(y.dtype)], 1)).squeeze(1)


class DLRM(nn.Module):
    first_order = 0

    def __init__(self):
        super().__init__()
        vectors = FIELDS + 1
        self.bottom = network([NUMERICS, 512, 256, DIM])
        self.top = network([vectors * (vectors - 1) // 2 + DIM, 512, 256, 1], last_act=False)
        pairs = torch.tril_indices(vectors, vectors, -1)
        self.register_buffer("pairs", pairs[0] * vectors + pairs[1])

    def forward(self, rows, index, numbers):
        bottom = self.bottom(numbers)
        v = torch.cat([F.embedding(index, rows), bottom.to(rows.dtype).unsqueeze(1)], 1)
        products = torch.bmm(v, v.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([bottom.to(products.dtype), products], 1)).squeeze(1)


KINDS = {"deepfm": DeepFM, "dcnv2": DCNv2, "dlrm": DLRM}


def batch(o, model):
    g = torch.Generator().manual_seed(1)
    each = o.rows // FIELDS
    index = torch.randint(0, each, (o.batch, FIELDS), generator=g)
    index[torch.rand(o.batch, FIELDS, generator=g) < 1 / 3] = 0
    index += torch.arange(FIELDS) * each
    rows = 0.1 * torch.rand(o.rows, DIM + model.first_order, generator=g)
    numbers = torch.rand(o.batch, NUMERICS, generator=g)
    label = (torch.rand(o.batch, generator=g) < 0.25).float()
    return [t.to(o.device) for t in (rows, index, numbers, label)]


def wait(o):
    if o.device == "cuda":
        torch.cuda.synchronize()


def precision_set(precision):
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def step_make(o, precision, variant):
    """A function that does one step, ready to be timed. A compiled function is made for one precision and batch size alone."""
    torch.manual_seed(0)
    precision_set(precision)
    model = KINDS[o.kind]().to(o.device)
    rows, index, numbers, label = batch(o, model)
    rows.requires_grad_(True)
    options = VARIANTS[variant]

    def loss(rows, index, numbers, label):
        return F.binary_cross_entropy_with_logits(model(rows, index, numbers), label)

    if options is not None:
        for tensor in (rows, index, numbers, label):  # always in the same place, as ours: a graph need not copy them
            torch._dynamo.mark_static_address(tensor)
        loss = torch.compile(loss, dynamic=False, **options)

    def step():
        rows.grad = None
        model.zero_grad(set_to_none=True)
        mixed = torch.autocast(o.device, dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
        with mixed:
            value = loss(rows, index, numbers, label)
        value.backward()

    for _ in range(5):
        step()
    wait(o)
    return step


def window(o, step, count):
    begin = time.perf_counter()
    for _ in range(count):
        step()
    wait(o)
    return time.perf_counter() - begin


def measure(o, step, seconds):
    """As step.c: some time to warm up, then the median of windows that take as long together."""
    count, begin = 1, time.perf_counter()
    while True:
        last = window(o, step, count)
        if last >= seconds / WINDOWS and time.perf_counter() - begin >= seconds:
            break
        if last < seconds / WINDOWS:
            count *= 2
    return 1e3 * statistics.median(window(o, step, count) for _ in range(WINDOWS)) / count


def tell(precision, variant, **more):
    print(json.dumps({"precision": precision, "variant": variant, **more}), flush=True)


def attempt(precision, variant, function):
    """Returns the result of `function`; None: it failed, and that was reported."""
    try:
        return function()
    except Exception as error:  # torch.compile fails on machines without a compiler; the other figures count
        text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:300]
        tell(precision, variant, error=f"{type(error).__name__}: {text}")
        return None


def dynamo_set():
    """All of a process's steps are one function to it, of which it would compile eight."""
    try:
        import torch._dynamo as dynamo
    except ImportError:  # a PyTorch before 2: the compiled variants say so themselves
        return
    for name in ("recompile_limit", "cache_size_limit"):
        if hasattr(dynamo.config, name):
            setattr(dynamo.config, name, 64)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--kind", choices=sorted(KINDS), required=True)
    a.add_argument("--device", default="cuda")
    a.add_argument("--batch", type=int, default=16384)
    a.add_argument("--rows", type=int, default=150000)
    a.add_argument("--ready-seconds", type=float, default=110)
    o = a.parse_args()
    dynamo_set()
    begin, steps = time.monotonic(), {}
    for variant in VARIANTS:
        for precision in PRECISIONS:
            if time.monotonic() - begin > o.ready_seconds:
                tell(precision, variant, error=f"not begun: the others took more than {o.ready_seconds:.0f} s to compile")
                continue
            step = attempt(precision, variant, lambda: step_make(o, precision, variant))
            if step:
                steps[precision, variant] = step
                tell(precision, variant, ready=True, torch=torch.__version__)
    for line in sys.stdin:
        precision, variant, seconds = line.split()
        step = steps.get((precision, variant))
        if step is None:
            tell(precision, variant, error="was not made ready")
            continue
        precision_set(precision)
        ms = attempt(precision, variant, lambda: measure(o, step, float(seconds)))
        if ms is not None:
            tell(precision, variant, ms=round(ms, 4))


main()
