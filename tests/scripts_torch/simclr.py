"""Contrastive learning of representations: two views of each image, NT-Xent, then a linear probe."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--temperature", default=0.5, type=float)
parser.add_argument("--n-views", default=2, type=int)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(2)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1, padding_mode="circular"), nn.InstanceNorm2d(6, affine=True), nn.LeakyReLU(0.1),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.projector = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x):
        return self.projector(self.backbone(x))


def augment(images):
    shift = int(torch.randint(-2, 3, ()))
    images = torch.roll(images, shifts=shift, dims=-1)
    if torch.rand(()) < 0.5:
        images = images.flip(-1)
    return images * (0.8 + 0.4 * torch.rand(len(images), 1, 1, 1)) + 0.05 * torch.randn_like(images)


def info_nce_loss(features, batch_size):
    labels = torch.cat([torch.arange(batch_size) for i in range(args.n_views)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    features = F.normalize(features, dim=1)
    similarity_matrix = torch.matmul(features, features.T)
    # discard the main diagonal from both: labels and similarities matrix
    mask = torch.eye(labels.shape[0], dtype=torch.bool)
    labels = labels[~mask].view(labels.shape[0], -1)
    similarity_matrix = similarity_matrix[~mask].view(similarity_matrix.shape[0], -1)
    # select and combine multiple positives
    positives = similarity_matrix[labels.bool()].view(labels.shape[0], -1)
    # select only the negatives
    negatives = similarity_matrix[~labels.bool()].view(similarity_matrix.shape[0], -1)
    logits = torch.cat([positives, negatives], dim=1)
    labels = torch.zeros(logits.shape[0], dtype=torch.long)
    return logits / args.temperature, labels


kinds = torch.arange(40) % 4
base = torch.randn(4, 1, 8, 8)
images = base[kinds] + 0.3 * torch.randn(40, 1, 8, 8)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=8)
criterion = torch.nn.CrossEntropyLoss()


def step(views):
    features = model(views)
    logits, labels = info_nce_loss(features, len(views) // args.n_views)
    loss = criterion(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for i in range(20):
    chosen = images[torch.randperm(40)[:10]]
    loss = step(torch.cat([augment(chosen) for _ in range(args.n_views)], dim=0))
    scheduler.step()
    print(f"loss {loss.item():.6f} lr {scheduler.get_last_lr()[0]:.6f}")
with torch.no_grad():
    h = model.backbone(images)
    design = torch.cat([h, torch.ones(40, 1)], dim=1).double()
    one_hot = F.one_hot(kinds, 4).double()
    solution = torch.linalg.solve(design.T @ design + 1e-2 * torch.eye(25, dtype=torch.double), design.T @ one_hot)
    print("probe accuracy", ((design @ solution).argmax(1) == kinds).float().mean().item())
