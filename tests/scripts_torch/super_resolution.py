"""Super resolution by sub-pixel convolution: small images of waves, a test set, a checkpoint that is read again."""

from __future__ import print_function

import argparse
import io
import math

import torch
import torch.nn as nn
import torch.nn.init as init
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--upscale_factor", type=int, default=2)
parser.add_argument("--compile", action="store_true")
opt = parser.parse_args()
torch.manual_seed(123)
torch.set_default_dtype(torch.float64)


class Waves(Dataset):
    def __init__(self, count, size=12):
        self.phase = torch.rand(count, 2) * 6
        grid = torch.linspace(0, 3, size)
        self.yy, self.xx = torch.meshgrid(grid, grid, indexing="ij")

    def __len__(self):
        return self.phase.size(0)

    def __getitem__(self, index):
        a, b = self.phase[index]
        target = (torch.sin(self.xx * 2 + a) + torch.cos(self.yy * 3 + b)).unsqueeze(0) / 2
        small = torch.nn.functional.interpolate(target.unsqueeze(0), scale_factor=0.5, mode="bicubic", align_corners=False)
        return small.squeeze(0), target


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super(Net, self).__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 16, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(16, 8, (3, 3), (1, 1), (1, 1))
        self.conv3 = nn.Conv2d(8, upscale_factor**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        self._initialize_weights()

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        return self.pixel_shuffle(self.conv3(x))

    def _initialize_weights(self):
        init.orthogonal_(self.conv1.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv2.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv3.weight)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(Waves(24), batch_size=8, shuffle=True, num_workers=0)
test_loader = DataLoader(Waves(8), batch_size=4)
model = Net(opt.upscale_factor).to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def step(input, target):
    optimizer.zero_grad()
    loss = criterion(model(input), target)
    loss.backward()
    optimizer.step()
    return loss


if opt.compile:
    step = torch.compile(step)

for epoch in range(1, 4):
    epoch_loss = 0
    for iteration, batch in enumerate(train_loader, 1):
        input, target = batch[0].to(device), batch[1].to(device)
        epoch_loss += step(input, target).item()
    print("===> Epoch {} Complete: Avg. Loss: {:.5f}".format(epoch, epoch_loss / len(train_loader)))
    with torch.no_grad():
        avg_psnr = sum(10 * math.log10(1 / criterion(model(a.to(device)), b.to(device)).item()) for a, b in test_loader)
    print("===> Avg. PSNR: {:.4f} dB".format(avg_psnr / len(test_loader)))

file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
again = Net(opt.upscale_factor)
print(again.load_state_dict(torch.load(file, map_location=device)))
small, _ = test_loader.dataset[0]
print("same:", torch.equal(again(small[None]), model(small[None])), tuple(again(small[None]).shape))
