"""A spatial transformer network: a localization net predicts an affine map, grid_sample undoes it."""

from __future__ import print_function

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(5)

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 6, kernel_size=3)
        self.conv2_drop = nn.Dropout2d(0.2)
        self.fc1 = nn.Linear(6 * 7 * 7, 4)
        self.localization = nn.Sequential(
            nn.Conv2d(1, 4, kernel_size=5), nn.MaxPool2d(2, stride=2), nn.ReLU(True),
            nn.Conv2d(4, 6, kernel_size=3), nn.MaxPool2d(2, stride=2), nn.ReLU(True),
        )
        self.fc_loc = nn.Sequential(nn.Linear(6 * 2 * 2, 16), nn.ReLU(True), nn.Linear(16, 3 * 2))
        self.fc_loc[2].weight.data.zero_()
        self.fc_loc[2].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def stn(self, x):
        xs = self.localization(x)
        xs = xs.view(-1, 6 * 2 * 2)
        theta = self.fc_loc(xs)
        theta = theta.view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    def forward(self, x):
        x = self.stn(x)
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv1(x)), 2))
        x = x.view(-1, 6 * 7 * 7)
        return F.log_softmax(self.fc1(x), dim=1)


labels = torch.arange(24) % 4
images = torch.zeros(24, 1, 16, 16)
for i, label in enumerate(labels.tolist()):
    images[i, 0, 2 + 3 * label : 5 + 3 * label, 3:13] = 1.0
images += 0.1 * torch.randn_like(images)
images = torch.roll(images, shifts=1, dims=-1)

model = Net().to(device)
optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)


def train_step(data, target):
    optimizer.zero_grad()
    output = model(data)
    loss = F.nll_loss(output, target)
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    train_step = torch.compile(train_step)

for epoch in range(1, 4):
    model.train()
    for batch_idx, rows in enumerate(torch.randperm(24).split(8)):
        data, target = images[rows].to(device), labels[rows].to(device)
        loss = train_step(data, target)
    print("Train Epoch: {} [{}]\tLoss: {:.6f}".format(epoch, batch_idx, loss.item()))
with torch.no_grad():
    model.eval()
    output = model(images)
    test_loss = F.nll_loss(output, labels, reduction="sum").item() / 24
    pred = output.max(1, keepdim=True)[1]
    correct = pred.eq(labels.view_as(pred)).sum().item()
    print("Test set: Average loss: {:.4f}, Accuracy: {}/{}".format(test_loss, correct, 24))
    print("moved by {:.5f}".format((model.stn(images) - images).abs().mean().item()))
