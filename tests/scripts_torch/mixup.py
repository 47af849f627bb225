"""Mixup with soft targets, label smoothing written by hand, and a class-weighted loss for comparison."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", default=1.0, type=float, help="mixup interpolation coefficient")
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(3)
np.random.seed(3)


class LabelSmoothing(nn.Module):
    """NLL loss with label smoothing."""

    def __init__(self, smoothing=0.0):
        super(LabelSmoothing, self).__init__()
        self.confidence = 1.0 - smoothing
        self.smoothing = smoothing

    def forward(self, x, target):
        logprobs = torch.nn.functional.log_softmax(x, dim=-1)
        nll_loss = -logprobs.gather(dim=-1, index=target.unsqueeze(1))
        nll_loss = nll_loss.squeeze(1)
        smooth_loss = -logprobs.mean(dim=-1)
        loss = self.confidence * nll_loss + self.smoothing * smooth_loss
        return loss.mean()


def mixup_data(x, y, alpha=1.0):
    """Returns mixed inputs, pairs of targets, and lambda"""
    lam = np.random.beta(alpha, alpha) if alpha > 0 else 1
    index = torch.randperm(x.size(0))
    mixed_x = lam * x + (1 - lam) * x[index, :]
    y_a, y_b = y, y[index]
    return mixed_x, y_a, y_b, torch.tensor(lam, dtype=torch.float32)


def mixup_criterion(criterion, pred, y_a, y_b, lam):
    return lam * criterion(pred, y_a) + (1 - lam) * criterion(pred, y_b)


y = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), 160, replacement=True)
x = torch.randn(160, 6) + torch.eye(3, 6)[y] * 2
class_count = torch.bincount(y, minlength=3)
weights = 1.0 / class_count.float()
sampler = WeightedRandomSampler(weights[y], num_samples=len(y), replacement=True)
loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=sampler)
print("classes", class_count.tolist())
net = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.Hardswish(), nn.Linear(24, 3))
optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
criterion = LabelSmoothing(0.1)


def step(inputs, targets_a, targets_b, lam):
    outputs = net(inputs)
    loss = mixup_criterion(criterion, outputs, targets_a, targets_b, lam)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    _, predicted = torch.max(outputs.data, 1)
    correct = lam * predicted.eq(targets_a.data).sum().float() + (1 - lam) * predicted.eq(targets_b.data).sum().float()
    return loss, correct


if args.compile:
    step = torch.compile(step)

for epoch in range(2):
    net.train()
    for batch_idx, (inputs, targets) in enumerate(loader):
        loss, correct = step(*mixup_data(inputs, targets, args.alpha))
        print('%d %d Loss: %.6f | Acc: %.5f%%' % (epoch, batch_idx, loss.item(), 100. * correct.item() / len(inputs)))
net.eval()
with torch.no_grad():
    out = net(x)
    print("weighted %.5f soft %.5f" % (
        F.cross_entropy(out, y, weight=weights).item(),
        F.cross_entropy(out, F.one_hot(y, 3).float() * 0.9 + 0.1 / 3).item()))
