"""Classify points in two spirals with a small MLP."""

import argparse
import math

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


def spirals(n):
    t = torch.rand(n) * 3 * math.pi + 0.5
    label = torch.randint(0, 2, (n,))
    sign = label.float() * 2 - 1
    points = torch.stack([t * torch.cos(t) * sign, t * torch.sin(t) * sign], dim=1) / 10
    return points + 0.02 * torch.randn_like(points), label


class MLP(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2)
        )

    def forward(self, x):
        return self.layers(x)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y = spirals(160)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = MLP().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
print(model)
print("parameters:", sum(p.numel() for p in model.parameters() if p.requires_grad))


def train_step(data, target):
    optimizer.zero_grad()
    output = model(data)
    loss = criterion(output, target)
    loss.backward()
    optimizer.step()
    return loss, output


if args.compile:
    train_step = torch.compile(train_step)

for epoch in range(args.epochs):
    model.train()
    correct = 0
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        loss, output = train_step(data, target)
        correct += (output.argmax(dim=1) == target).sum().item()
        print(f"epoch {epoch} [{batch_idx * len(data)}/{len(loader.dataset)}] loss {loss.item():.6f}")
    scheduler.step()
    print(f"accuracy {100.0 * correct / len(loader.dataset):.2f}% lr {scheduler.get_last_lr()[0]:g}")

model.eval()
with torch.no_grad():
    print("mean probability", model(x).softmax(dim=1)[:, 0].mean().item())
