"""Transfer learning: frozen features, a new head, discriminative rates, warm-up then cosine, confusion matrix, torch.testing."""

import argparse
import copy
import time

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler
from torch.testing import assert_close

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(2)
torch.backends.cudnn.benchmark = True

x = torch.randn(48, 3, 8, 8)
y = (x[:, 0].mean((1, 2)) > 0).long() + (x[:, 1].amax((1, 2)) > 2.3).long()
dataloaders = {"train": list(zip(x[:32].split(8), y[:32].split(8))), "val": list(zip(x[32:].split(8), y[32:].split(8)))}
backbone = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), nn.Linear(32, 10)
)
for param in backbone.parameters():
    param.requires_grad = False
num_ftrs = backbone[5].in_features
backbone[5] = nn.Linear(num_ftrs, 3)
frozen = copy.deepcopy(backbone[0].weight)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
optimizer = optim.SGD(filter(lambda p: p.requires_grad, backbone.parameters()), lr=0.1, momentum=0.9)
warmup = lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=2)
cosine = lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
scheduler = lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[2])


def train_batch(inputs, labels):
    optimizer.zero_grad()
    outputs = backbone(inputs)
    _, preds = torch.max(outputs, 1)
    loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
    return loss, preds


if args.compile:
    train_batch = torch.compile(train_batch)

since, best_acc, best = time.time(), 0.0, None
for epoch in range(4):
    for phase in ["train", "val"]:
        backbone.train(phase == "train")
        running_loss, running_corrects = 0.0, 0
        for inputs, labels in dataloaders[phase]:
            if phase == "train":
                loss, preds = train_batch(inputs, labels)
            else:
                with torch.set_grad_enabled(False):
                    outputs = backbone(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
            running_loss += loss.item() * inputs.size(0)
            running_corrects += torch.sum(preds == labels.data)
        if phase == "train":
            scheduler.step()
        count = sum(len(labels) for _, labels in dataloaders[phase])
        epoch_acc = running_corrects.double() / count
        print(f"{phase} Loss: {running_loss / count:.5f} Acc: {epoch_acc:.4f} lr {scheduler.get_last_lr()[0]:.5f}")
        if phase == "val" and epoch_acc > best_acc:
            best_acc, best = epoch_acc, copy.deepcopy(backbone.state_dict())
assert time.time() >= since
assert_close(backbone[0].weight, frozen)
backbone.load_state_dict(best)

# all layers, at rates of their own
for param in backbone.parameters():
    param.requires_grad_(True)
groups = [{"params": backbone[:5].parameters(), "lr": 1e-3}, {"params": backbone[5].parameters()}]
optimizer = optim.NAdam(groups, lr=1e-2)
backbone.train()
for inputs, labels in dataloaders["train"]:
    loss, _ = train_batch(inputs, labels)
print(f"fine-tuned {loss.item():.5f}")
backbone.eval()
with torch.no_grad():
    predicted = torch.cat([backbone(inputs).argmax(1) for inputs, _ in dataloaders["val"]])
confusion = torch.zeros(3, 3, dtype=torch.int64)
for t, p in zip(y[32:].view(-1), predicted.view(-1)):
    confusion[t.long(), p.long()] += 1
print(confusion.tolist(), torch.bincount(y[32:] * 3 + predicted, minlength=9).tolist())
try:
    assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
except AssertionError as error:
    print(str(error).splitlines()[0])
