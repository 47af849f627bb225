"""Matrix factorisation with biases: sparse embeddings, SparseAdam, ratings from a table."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--factors", type=int, default=6)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
rng = np.random.default_rng(0)


class Ratings(Dataset):
    def __init__(self, n_users=40, n_items=30, n=320):
        taste, kind = rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3))
        self.users = rng.integers(0, n_users, n)
        self.items = rng.integers(0, n_items, n)
        self.ratings = (3 + (taste[self.users] * kind[self.items]).sum(1)).clip(1, 5).astype(np.float32)

    def __len__(self):
        return len(self.ratings)

    def __getitem__(self, i):
        return self.users[i], self.items[i], self.ratings[i]


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_items, n_factors):
        super().__init__()
        self.user_factors = nn.Embedding(n_users, n_factors, sparse=True)
        self.item_factors = nn.Embedding(n_items, n_factors, sparse=True)
        self.user_biases = nn.Embedding(n_users, 1, sparse=True)
        self.item_biases = nn.Embedding(n_items, 1, sparse=True)
        for emb in (self.user_factors, self.item_factors):
            nn.init.normal_(emb.weight, std=0.1)
        for emb in (self.user_biases, self.item_biases):
            emb.weight.data.fill_(0.0)

    def forward(self, user, item):
        pred = self.user_biases(user) + self.item_biases(item)
        pred += (self.user_factors(user) * self.item_factors(item)).sum(dim=1, keepdim=True)
        return pred.squeeze() + 3.0


data = Ratings()
loader = DataLoader(data, batch_size=32, shuffle=True)
model = MatrixFactorization(40, 30, args.factors)
loss_func = nn.MSELoss()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=1e-2)


def step(user, item, rating):
    optimizer.zero_grad()
    loss = loss_func(model(user, item), rating)
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for epoch in range(2):
    for i, (user, item, rating) in enumerate(loader):
        loss = step(user, item, rating)
        print(f"epoch {epoch} batch {i} mse {loss.item():.6f} rmse {loss.item() ** 0.5:.5f}")
print("sparse gradients:", model.user_factors.weight.grad.is_sparse, model.user_factors.weight.grad.shape)
print("dtypes of a batch:", user.dtype, rating.dtype)
