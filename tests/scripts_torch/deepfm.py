"""A click model with bags of features: EmbeddingBag with weights and offsets, a wide part, a deep part."""

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(50)
FIELDS, FEATURES, DIM = 4, 30, 6


class DeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(FEATURES, DIM)
        self.linear = nn.EmbeddingBag(FEATURES, 1, mode="sum")
        self.bag = nn.EmbeddingBag(FEATURES, DIM, mode="mean")
        self.deep = nn.Sequential(
            nn.Linear(FIELDS * DIM + DIM, 24), nn.BatchNorm1d(24), nn.LeakyReLU(), nn.Dropout(0.1), nn.Linear(24, 1)
        )
        nn.init.xavier_uniform_(self.embedding.weight)

    def forward(self, fields, weights, history, offsets):
        e = self.embedding(fields)                                              # (B, F, D)
        square_of_sum = e.sum(dim=1).pow(2)
        sum_of_square = e.pow(2).sum(dim=1)
        second_order = 0.5 * (square_of_sum - sum_of_square).sum(dim=1, keepdim=True)
        first_order = self.linear(fields, per_sample_weights=weights)
        deep = self.deep(torch.hstack([e.flatten(1), self.bag(history, offsets)]))
        return (first_order + second_order + deep).squeeze(1)


model = DeepFM()
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1)
truth = torch.randn(FEATURES)


def make_batch(n=24):
    fields = torch.randint(0, FEATURES, (n, FIELDS))
    weights = torch.rand(n, FIELDS)
    lengths = torch.full((n,), 2)
    lengths[::2] = 3
    offsets = torch.cumsum(lengths, 0) - lengths
    history = torch.randint(0, FEATURES, (int(lengths.sum()),))
    clicks = ((truth[fields] * weights).sum(1) > 0.3).float()
    return fields, weights, history, offsets, clicks


def step(fields, weights, history, offsets, clicks):
    optimizer.zero_grad()
    logits = model(fields, weights, history, offsets)
    loss = criterion(logits, clicks)
    loss.backward()
    optimizer.step()
    return loss, logits


if args.compile:
    step = torch.compile(step)

for i in range(20):
    *inputs, clicks = make_batch()
    loss, logits = step(*inputs, clicks)
    accuracy = ((logits > 0) == clicks.bool()).float().mean()
    print(f"batch {i:2d} loss {loss.item():.6f} accuracy {accuracy:.4f}")
