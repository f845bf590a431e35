#!/usr/bin/env python3
"""DeepFM in plain PyTorch on the batches of a Shoal job: deepfm.py JOB.yaml [EPOCHS]. Tells the AUC of each epoch's validation."""
import sys

import numpy as np
import shoal
import torch
from torch import nn

ROWS, DIM, FIELDS = 100_000, 10, 10


class DeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        self.vectors = nn.EmbeddingBag.from_pretrained(torch.rand(ROWS, 1 + DIM) * 0.02 - 0.01, freeze=False, mode="sum")
        layers, width = [], FIELDS * DIM
        for hidden in (400, 400, 400):
            layers += [nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.2)]
            width = hidden
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, batch):
        rows = self.vectors(torch.from_numpy(batch.ids), torch.from_numpy(batch.bags).long())
        rows = rows.view(batch.examples, FIELDS, 1 + DIM)
        linear, vectors = rows[..., 0].sum(1), rows[..., 1:]
        pairs = (vectors.sum(1).square() - vectors.square().sum(1)).sum(1) / 2
        return linear + pairs + self.deep(vectors.flatten(1)).squeeze(1)


def auc(label, score):
    order = np.argsort(score, kind="stable")
    _, group, count = np.unique(score[order], return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[group]  # ties share a rank
    positive = label[order] > 0.5
    return (rank[positive].mean() - (positive.sum() + 1) / 2) / (~positive).sum()


torch.manual_seed(2026)
model = DeepFM()
optimizer = torch.optim.Adam([{"params": model.vectors.parameters(), "weight_decay": 0.05}, {"params": model.deep.parameters()}], lr=0.001)
seen = {}  # epoch -> labels and scores of its validation
with shoal.Reader(sys.argv[1], epochs=int(sys.argv[2])) as batches:
    for batch in batches:
        model.train(batch.train)
        label, logit = torch.tensor(batch.label[:, 0]), model(batch)
        if batch.train:
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(logit, label).backward()
            optimizer.step()
        else:
            seen.setdefault(batch.epoch, []).append((label.numpy(), logit.detach().numpy()))
        batch.done(torch.sigmoid(logit))
for epoch, parts in seen.items():
    print(f"epoch {epoch}: auc {auc(*map(np.concatenate, zip(*parts))):.4f}")
