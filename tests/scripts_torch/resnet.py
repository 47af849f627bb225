"""A residual network with two groups of parameters, label smoothing and a checkpoint of the best epoch."""

import argparse
import copy
import os
import tempfile
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset, random_split

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(42)
torch.backends.cudnn.benchmark = True


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, self.expansion * planes, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(self.expansion * planes),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.layers = nn.Sequential(OrderedDict([("layer1", BasicBlock(4, 4)), ("layer2", BasicBlock(4, 8, 2))]))
        self.fc = nn.Linear(8, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.layers(F.relu(self.stem(x)))
        x = F.avg_pool2d(x, x.size()[2:])
        return self.fc(torch.flatten(x, 1))


images = torch.randn(100, 1, 8, 8)
labels = (images.mean(dim=(1, 2, 3)) * 12).round().clamp(-1, 1).long() + 1
train_set, val_set = random_split(
    TensorDataset(images, labels), [80, 20], generator=torch.Generator().manual_seed(1)
)
train_loader = DataLoader(train_set, batch_size=16, shuffle=True, drop_last=True, pin_memory=torch.cuda.is_available())
val_loader = DataLoader(val_set, batch_size=10)
net = ResNet()
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = optim.SGD(
    [
        {"params": net.fc.parameters(), "lr": 0.05},
        {"params": [p for n, p in net.named_parameters() if not n.startswith("fc")]},
    ],
    lr=0.02, momentum=0.9, weight_decay=1e-4, nesterov=True,
)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)


def step(xb, yb):
    optimizer.zero_grad(set_to_none=True)
    out = net(xb)
    loss = criterion(out, yb)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return loss.detach(), out.detach(), norm


if args.compile:
    step = torch.compile(step)

best_loss, best_state = float("inf"), None
for epoch in range(4):
    net.train()
    running = correct = 0.0
    for xb, yb in train_loader:
        loss, out, norm = step(xb, yb)
        running += loss.item() * xb.size(0)
        correct += out.argmax(1).eq(yb).sum().item()
        print(f"loss {loss.item():.6f} gradient norm {norm:.5f}")
    scheduler.step()
    net.eval()
    with torch.no_grad():
        val_loss = sum(criterion(net(xb), yb).item() for xb, yb in val_loader) / len(val_loader)
    if val_loss < best_loss:
        best_loss, best_state = val_loss, copy.deepcopy(net.state_dict())
    print(f"{epoch}: train {running / 80:.5f} accuracy {correct / 80:.3f} val {val_loss:.5f}"
          f" lr {scheduler.get_last_lr()}")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "best.pt")
    torch.save({"model": best_state, "optimizer": optimizer.state_dict(), "epoch": 4}, path)
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
print(net.load_state_dict(checkpoint["model"]), checkpoint["epoch"])
print([tuple(v.shape) for v in list(net.state_dict().values())[:3]])
print("batches seen:", net.layers.layer1.bn1.num_batches_tracked.item())
