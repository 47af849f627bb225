"""Two siamese trainings, one after the other: triplet margins, then contrastive pairs with a pairwise distance."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--margin", type=float, default=1.0)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(12)
centers = torch.randn(4, 10)


def draw(labels):
    return centers[labels] + 0.5 * torch.randn(len(labels), 10)


class EmbeddingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(10, 24), nn.PReLU(), nn.Linear(24, 24), nn.PReLU(), nn.Linear(24, 2))

    def forward(self, x):
        return self.fc(x)

    def get_embedding(self, x):
        return F.normalize(self(x), p=2, dim=1)


def make():
    net = EmbeddingNet()
    optimizer = optim.Adam(net.parameters(), lr=1e-2)
    return net, optimizer, optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin, self.eps = margin, 1e-9

    def forward(self, output1, output2, target, size_average=True):
        distances = (output2 - output1).pow(2).sum(1)
        losses = 0.5 * (target.float() * distances
                        + (1 + -1 * target).float() * F.relu(self.margin - (distances + self.eps).sqrt()).pow(2))
        return losses.mean() if size_average else losses.sum()


net, optimizer, scheduler = make()
triplet_loss = nn.TripletMarginLoss(margin=args.margin, p=2)
contrastive_loss = ContrastiveLoss(args.margin)


def triplet_step(anchor, positive, negative):
    optimizer.zero_grad()
    loss = triplet_loss(net(anchor), net(positive), net(negative))
    loss.backward()
    optimizer.step()
    return loss


def pair_step(a, b, target):
    optimizer.zero_grad()
    loss = contrastive_loss(net.get_embedding(a), net.get_embedding(b), target)
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    triplet_step, pair_step = torch.compile(triplet_step), torch.compile(pair_step)

for i in range(10):
    label = torch.randint(0, 4, (32,))
    other = (label + torch.randint(1, 4, (32,))) % 4
    loss = triplet_step(draw(label), draw(label), draw(other))
    scheduler.step()
    print(f"triplet {i}: {loss.item():.6f}")
net, optimizer, scheduler = make()
for i in range(10):
    first, second = torch.randint(0, 4, (2, 32)).unbind(0)
    loss = pair_step(draw(first), draw(second), first == second)
    scheduler.step()
    print(f"pairs {i}: {loss.item():.6f}")
with torch.no_grad():
    distance = F.pairwise_distance(net(centers[:2]), net(centers[2:]))
    print("distances", [f"{d:.4f}" for d in distance])
