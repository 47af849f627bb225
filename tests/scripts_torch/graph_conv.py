"""A graph network on a planted partition: messages by index_add and scatter_reduce, attention over edges."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(9)


def planted_partition(n=36, classes=3, inside=0.35, outside=0.04):
    y = torch.arange(n) % classes
    same = y[:, None] == y[None, :]
    probability = torch.where(same, torch.tensor(inside), torch.tensor(outside))
    adjacency = torch.bernoulli(probability).triu(1)
    edge_index = (adjacency + adjacency.T).nonzero().t()
    x = F.one_hot(y, classes).float() + 1.2 * torch.randn(n, classes)
    return x, edge_index, y


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.empty(out_channels))
        nn.init.zeros_(self.bias)

    def forward(self, x, edge_index):
        loops = torch.arange(x.size(0))
        row, col = torch.cat([edge_index, torch.stack([loops, loops])], dim=1)
        deg = torch.zeros(x.size(0)).scatter_add_(0, col, torch.ones(col.size(0)))
        deg_inv_sqrt = deg.pow(-0.5)
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        x = self.lin(x)
        out = torch.zeros_like(x).index_add_(0, col, norm.view(-1, 1) * x[row])
        return out + self.bias


class GATConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.att_src = nn.Parameter(torch.randn(out_channels) * 0.1)
        self.att_dst = nn.Parameter(torch.randn(out_channels) * 0.1)

    def forward(self, x, edge_index):
        row, col = edge_index
        x = self.lin(x)
        e = F.leaky_relu((x @ self.att_src)[row] + (x @ self.att_dst)[col], 0.2)
        top = torch.full((x.size(0),), float("-inf")).scatter_reduce(0, col, e.detach(), reduce="amax")
        weight = (e - top[col]).exp()
        total = torch.zeros(x.size(0)).index_add(0, col, weight)
        weight = weight / (total[col] + 1e-16)
        return torch.zeros_like(x).index_add(0, col, weight.unsqueeze(-1) * x[row])


class Net(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, 16), GATConv(16, classes)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.3, training=self.training)
        x = self.conv1(x, edge_index).relu()
        return self.conv2(x, edge_index)


x, edge_index, y = planted_partition()
train_mask = torch.zeros(len(y), dtype=torch.bool)
train_mask[torch.randperm(len(y))[:18]] = True
print(f"{len(y)} nodes, {edge_index.size(1)} edges, {int(train_mask.sum())} labelled")
model = Net(x.size(1), 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def train():
    model.train()
    optimizer.zero_grad()
    out = model(x, edge_index)
    loss = F.cross_entropy(out[train_mask], y[train_mask])
    loss.backward()
    optimizer.step()
    return loss


@torch.no_grad()
def test():
    model.eval()
    pred = model(x, edge_index).argmax(dim=-1)
    return [float((pred[mask] == y[mask]).float().mean()) for mask in (train_mask, ~train_mask)]


if args.compile:
    train = torch.compile(train)

for epoch in range(1, args.epochs + 1):
    loss = train()
    train_acc, test_acc = test()
    print(f"Epoch: {epoch:03d}, Loss: {loss.item():.6f}, Train: {train_acc:.4f}, Test: {test_acc:.4f}")
