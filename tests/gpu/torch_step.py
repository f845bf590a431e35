#!/usr/bin/env python3
"""torch_step: the training step of tests/gpu/step.c in PyTorch, on the same shapes: rows gathered by index, layers, loss, gradients of
the network and of the rows; no optimizer, as the servers have it. A line of JSON for each figure, as soon as it is known, or for
what went wrong with it.

    torch_step.py [--device cuda] [--batch 16384] [--rows 150000] [--seconds 80]

Variants: eager, and compiled (torch.compile), each in fp32 and with tf32 products. --seconds: no new figure is begun after that."""
import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

FIELDS, DIM, NUMERICS, WINDOWS = 26, 16, 13, 11


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
            y = torch.addcmul(y, x, layer(y))
        return self.head(torch.cat([y, self.network(x)], 1)).squeeze(1)


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
        v = torch.cat([F.embedding(index, rows), bottom.unsqueeze(1)], 1)
        products = torch.bmm(v, v.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([bottom, products], 1)).squeeze(1)


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


def measure(o, name, kind, precision, compiled):
    torch.manual_seed(0)
    model = kind().to(o.device)
    rows, index, numbers, label = batch(o, model)
    rows.requires_grad_(True)
    run = torch.compile(model) if compiled else model

    def step():
        rows.grad = None
        model.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(run(rows, index, numbers), label).backward()

    def window(count):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        wait(o)
        return time.perf_counter() - begin

    # As step.c: a second to warm up, then the median of windows that take a second together.
    window(5)
    count, begin = 1, time.perf_counter()
    while window(count) < 1 / WINDOWS or time.perf_counter() - begin < 1:
        if window(count) < 1 / WINDOWS:
            count *= 2
    seconds = statistics.median(window(count) for _ in range(WINDOWS)) / count
    print(json.dumps({"kind": name, "variant": "compiled" if compiled else "eager", "precision": precision, "batch": o.batch,
                      "ms": 1e3 * seconds, "examples_per_second": o.batch / seconds, "torch": torch.__version__}), flush=True)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--device", default="cuda")
    a.add_argument("--batch", type=int, default=16384)
    a.add_argument("--rows", type=int, default=150000)
    a.add_argument("--seconds", type=float, default=80)
    o = a.parse_args()
    begin = time.monotonic()
    kinds = [("deepfm", DeepFM), ("dcnv2", DCNv2), ("dlrm", DLRM)]
    for compiled, precision in ((False, "fp32"), (False, "tf32"), (True, "tf32"), (True, "fp32")):
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        for name, kind in kinds:
            if time.monotonic() - begin > o.seconds or compiled and not hasattr(torch, "compile"):
                return
            try:
                measure(o, name, kind, precision, compiled)
            except Exception as error:  # torch.compile fails on machines without a compiler; the other figures count
                text = (str(error).splitlines() or [""])[0][:200]
                print(json.dumps({"kind": name, "variant": "compiled" if compiled else "eager", "precision": precision,
                                  "error": f"{type(error).__name__}: {text}"}), flush=True)


main()
