"""Segment discs with a small U-Net: skips by concatenation, bilinear upsampling, Dice plus cross entropy."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser(description="Train the UNet on images and target masks")
parser.add_argument("--epochs", "-e", type=int, default=5)
parser.add_argument("--bilinear", action="store_true", default=True)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(6)


class DoubleConv(nn.Module):
    """(convolution => [BN] => ReLU) * 2"""

    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(in_channels, out_channels))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        x = torch.cat([x2, x1], dim=1)
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, n_channels, n_classes):
        super().__init__()
        self.inc = DoubleConv(n_channels, 4)
        self.down1 = Down(4, 4)
        self.up1 = Up(8, 4)
        self.outc = nn.Conv2d(4, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        return self.outc(self.up1(x2, x1))


def dice_coeff(input, target, reduce_batch_first=False, epsilon=1e-6):
    assert input.size() == target.size()
    sum_dim = (-1, -2) if input.dim() == 2 or not reduce_batch_first else (-1, -2, -3)
    inter = 2 * (input * target).sum(dim=sum_dim)
    sets_sum = input.sum(dim=sum_dim) + target.sum(dim=sum_dim)
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return ((inter + epsilon) / (sets_sum + epsilon)).mean()


def dice_loss(input, target):
    return 1 - dice_coeff(input.flatten(0, 1), target.flatten(0, 1), reduce_batch_first=True)


def discs(n, size=11):
    grid = torch.arange(size)
    cy, cx = torch.randint(3, size - 3, (2, n, 1, 1))
    mask = ((grid[:, None] - cy) ** 2 + (grid[None, :] - cx) ** 2) <= 7
    return mask.float().unsqueeze(1) + 0.4 * torch.randn(n, 1, size, size), mask.long()


images, masks = discs(32)
model = UNet(n_channels=1, n_classes=2)
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.5)
criterion = nn.CrossEntropyLoss()


def step(image, true_mask):
    masks_pred = model(image)
    loss = criterion(masks_pred, true_mask)
    loss += dice_loss(
        F.softmax(masks_pred, dim=1).float(), F.one_hot(true_mask, 2).permute(0, 3, 1, 2).float()
    )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for epoch in range(args.epochs):
    for index in torch.randperm(32).split(8):
        loss = step(images[index], masks[index])
        print(f"epoch {epoch} loss (batch) {loss.item():.6f}")
    scheduler.step()
model.eval()
with torch.no_grad():
    predicted = model(images).argmax(dim=1)
    union = ((predicted == 1) | (masks == 1)).sum()
    print("IoU %.4f" % (((predicted == 1) & (masks == 1)).sum() / union).item())
